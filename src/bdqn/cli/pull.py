"""``bdqn pull``: copies an agent that was shared."""

from __future__ import annotations

from pathlib import Path

from bdqn.cli.common import say, user_errors
from bdqn.cli.options import Parser


def run(argv: list[str]) -> int:
    """Fetch an agent, verify it and write it to a directory."""
    parser = Parser(
        prog="bdqn pull",
        description="Copy an agent that bdqn push shared, and verify every byte. Nothing of it is executed.",
    )
    parser.add_argument("source", metavar="SOURCE", help="a directory, or hf://owner/name on the Hugging Face hub")
    parser.add_argument("--out", metavar="DIR", help="the new directory [SOURCE's name, in the current directory]")
    parser.add_argument("--replace", action="store_true", help="replace an agent that is there")
    args = parser.parse(argv)

    from bdqn.storage.saved_agents import CARD
    from bdqn.storage.shared_agents import Folder, place, read_agent, read_card

    with user_errors():
        source = place(args.source)
        out = Folder(Path(args.out or source.name))
        with source.opened() as folder:
            files, card = read_agent(folder), read_card(folder)
        if card is not None:
            files[CARD] = card.encode()
        out.write(files, replace=args.replace)
    say(f"{out}: {len(files)} files, {sum(map(len, files.values())) / 1e3:,.0f} kB, verified; try: bdqn watch {out}")
    return 0
