"""Fill docs/algorithms/README.md with the agents' choices, from their recipes.

.venv/bin/python docs/algorithms/table.py
"""

from __future__ import annotations

import re
from pathlib import Path

from bdqn.agents import compared

PAGE = Path(__file__).parent / "README.md"


def filled(text: str) -> str:
    """The page with its table made anew."""
    rows = [[f"[`{name}`]({name}.md)", *words.values()] for name, words in compared().items()]
    lines = [["agent", "head", "policy", "redraw", "bootstrap", "extras"], ["---"] * 6, *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    text, count = re.subn(r"(?<=<!-- agents -->\n).*?(?=<!-- end -->)", f"{table}\n", text, flags=re.DOTALL)
    assert count == 1, f"{PAGE} has {count} places for the table."
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
