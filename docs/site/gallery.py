"""A page that shows every experiment: its title, its question and its first figure."""

from __future__ import annotations

import re
from pathlib import Path

LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
FIGURE = re.compile(r"!\[[^]]*\]\(([^)]*)\)")


def gallery(experiments: Path) -> str:
    """One card for each directory with a README."""
    folders = sorted(path.parent for path in experiments.glob("*/README.md"))
    cards = "\n".join(card(folder) for folder in folders)
    pages = "\n".join(f"/experiments/{folder.name}/README" for folder in folders)
    return f"""# Experiments

Each experiment is a directory: a sweep file or a script, small results, and an analysis that makes its tables and
figures without training. Each page has its commands, its duration, its finding and its limits.

:::::{{container}} gallery
{cards}
:::::

```{{toctree}}
:hidden:

{pages}
```
"""


def card(folder: Path) -> str:
    page = (folder / "README.md").read_text()
    title = re.search(r"^# (.*)$", page, re.MULTILINE)
    question = re.search(r"^\*\*Question\.\*\* (.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    assert title, f"{folder}/README.md needs a title."
    place = f"/experiments/{folder.name}"
    text = LINK.sub(r"\1", question[1] if question else page.split("\n\n")[1])
    picture = figure(folder, page)
    shown = f"[![{title[1]}]({place}/{picture})]({place}/README.md)\n\n" if picture else ""
    return f"::::{{container}} card\n{shown}**[{title[1]}]({place}/README.md)**\n\n{text}\n::::\n"


def figure(folder: Path, page: str) -> str | None:
    """The page's first figure, or else the first of the results; a trial run at the quick scale shows no finding."""
    shown = FIGURE.search(page)
    others = (path.relative_to(folder) for path in sorted(folder.glob("results/**/*.png")))
    return shown[1] if shown else next((path.as_posix() for path in others if "quick" not in path.parts), None)
