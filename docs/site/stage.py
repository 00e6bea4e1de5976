"""Gather the site's pages in a directory for Sphinx: the repository's own, and those that are made from the code.

    python docs/site/stage.py out/site-pages

Pages keep their places, so that links between them hold on the site as in the repository.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from api import api_pages
from gallery import gallery
from reference import command_line, presets, settings

ROOT = Path(__file__).parents[2]
COPIED = ("*.md", "*.png", "*.mp4", "*.ipynb", "*.toml", "*.csv", "*.py", "*.cff", "LICENSE")
SPLIT = "\n## How to read the code\n"  # where the README turns from users to developers
LINK = re.compile(r"\]\(([^):#\s]+)(#[^)\s]*)?\)")

# The sidebar: captions, and below each the pages with short titles.
CONTENTS = {
    "Guide": {
        "Getting started": "docs/getting-started",
        "Environments": "docs/environments",
        "Why Thompson sampling": "docs/thompson-sampling",
        "Reading the posterior": "docs/reading-the-posterior",
        "An agent that you have": "docs/attach",
        "Agents to download": "docs/agents-to-download",
        "Callbacks and loggers": "docs/callbacks",
        "Comparing agents": "docs/comparing-agents",
        "Many runs": "docs/sweeps",
        "Reports and pages": "docs/report",
        "Resuming, and what cannot be lost": "docs/reliability",
        "Tuning": "docs/tune",
        "Results": "docs/results",
        "Speed": "docs/performance",
    },
    "Notebooks": {
        "Five minutes": "docs/notebooks/1-five-minutes",
        "Your own environment": "docs/notebooks/2-your-environment",
        "Thompson sampling and regret": "docs/notebooks/3-thompson-sampling",
        "A posterior for an agent you already have": "docs/notebooks/4-attach",
        "Comparing exploration methods": "docs/notebooks/5-comparing",
    },
    "Reference": {
        "Agents": "docs/algorithms/README",
        "Settings": "reference/settings",
        "Presets": "reference/presets",
        "Commands": "docs/cli",
        "Command line, option by option": "reference/command-line",
        "Files of a run": "docs/run-directory",
        "Glossary": "docs/glossary",
        "API": "reference/api",
    },
    "Theory": {"Linear theory and errata": "docs/theory", "Paper map": "docs/paper-map"},
    "Experiments": {"Gallery": "reference/experiments"},
    "Development": {
        "How to read the code": "code",
        "Adding an agent": "docs/adding-an-agent",
        "What stays as it is": "docs/promises",
        "Contributing": "CONTRIBUTING",
        "Decisions": "docs/decisions/README",
        "What is not there": "docs/not-here",
        "Security": "SECURITY",
        "Changelog": "CHANGELOG",
    },
}
ELSEWHERE = ("docs/algorithms/", "docs/decisions/", "experiments/")  # pages that another page lists

Pages = dict[str, str]  # Markdown by path


def stage(folder: Path) -> None:
    """Make the directory hold the site's pages, and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    files = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in sources() if path.suffix != ".md"}
    files |= {name: text.encode() for name, text in (own_pages() | generated_pages()).items()}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def sources() -> list[Path]:
    """The repository's pages, and the files that they show or link to."""
    site = Path(__file__).parent
    found = [path for pattern in COPIED for path in ROOT.glob(pattern)]
    found += [path for top in ("docs", "experiments") for pattern in COPIED for path in (ROOT / top).rglob(pattern)]
    return [path for path in found if site not in path.parents]


def own_pages() -> Pages:
    """The repository's pages. The README becomes two: the first page, and one about the code."""
    pages = {}
    for path in sources():
        if path.suffix == ".md":
            name = path.relative_to(ROOT).as_posix()
            pages[name] = LINK.sub(lambda link, folder=path.parent: on_the_site(link, folder), path.read_text())
    pages["index.md"], code = pages.pop("README.md").split(SPLIT)
    pages["code.md"] = f"# How to read the code\n{code}"
    pages["docs/algorithms/README.md"] += toctree(stems("docs/algorithms"))
    listed = {"index.md", *(f"{page}.md" for pages in CONTENTS.values() for page in pages.values())}
    for name, text in pages.items():
        if name not in listed and (not name.startswith(ELSEWHERE) or "/results/" in name):
            pages[name] = f"---\norphan: true\n---\n\n{text}"
    for caption, entries in CONTENTS.items():
        pages["index.md"] += toctree([f"{title} </{page}>" for title, page in entries.items()], caption)
    return pages


def on_the_site(link: re.Match[str], folder: Path) -> str:
    """A link's target on the site: directories have pages there, and the README is two."""
    target, anchor = Path(os.path.normpath(folder / link[1])), link[2] or ""
    if target == ROOT / "README.md":
        target = target.with_name("code.md" if anchor else "index.md")
    elif target.is_dir():
        target /= "README.md"
    return f"]({os.path.relpath(target, folder)}{anchor})"


def generated_pages() -> Pages:
    """Pages that are made from the code, and lists of the repository's pages."""
    return {
        "docs/decisions/README.md": decisions(),
        "reference/settings.md": settings(),
        "reference/presets.md": presets(),
        "reference/command-line.md": command_line(),
        "reference/experiments.md": gallery(ROOT / "experiments"),
        **api_pages(),
    }


def decisions() -> str:
    listed = toctree(stems("docs/decisions"), hidden=False)
    return f"# Decisions\n\nWhat was decided, why, and what follows from it.\n{listed}"


def stems(folder: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / folder).glob("*.md") if path.stem != "README")


def toctree(pages: Iterable[str], caption: str = "", *, hidden: bool = True) -> str:
    """Sphinx's list of pages below a page."""
    options = [":maxdepth: 1", *([f":caption: {caption}"] if caption else []), *([":hidden:"] if hidden else [])]
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", ""])


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
