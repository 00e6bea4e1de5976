"""``bdqn push``: shares a trained agent with a model card."""

from __future__ import annotations

from pathlib import Path

from bdqn.cli.common import say, user_errors
from bdqn.cli.options import Parser


def run(argv: list[str]) -> int:
    """Read an agent, describe it and write it elsewhere."""
    parser = Parser(
        prog="bdqn push",
        description="Share a trained agent: safetensors, JSON and a model card, without its replay buffer.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's directory, one of its checkpoints, or a saved agent")
    parser.add_argument("to", metavar="DEST", help="a new directory, or hf://owner/name on the Hugging Face hub")
    parser.add_argument("--best", action="store_true", help="share the run's best checkpoint instead of the newest")
    parser.add_argument("--replace", action="store_true", help="replace an agent that is there")
    args = parser.parse(argv)

    from bdqn.report.card import model_card
    from bdqn.storage.saved_agents import CARD, find_agent
    from bdqn.storage.shared_agents import place, read_agent, read_card

    with user_errors():
        destination = place(args.to)
        agent = find_agent(Path(args.run), best=args.best)
        files = read_agent(agent)
        card = read_card(agent) or model_card(agent, destination.address)
        files[CARD] = card.encode()
        destination.write(files, replace=args.replace)
    say(f"{destination}: {len(files)} files, {sum(map(len, files.values())) / 1e3:,.0f} kB; {CARD} describes the agent")
    return 0
