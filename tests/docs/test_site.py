"""The site has all there is: pages, settings, presets, commands. ``make docs`` builds it and looks at it."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from bdqn.agents import AGENTS
from bdqn.cli import COMMANDS
from bdqn.config.preset_files import preset_names
from bdqn.config.settings import Training, settings_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    return importlib.import_module("stage")


def test_every_page_is_in_the_sidebar_and_the_other_way_round(stage: ModuleType) -> None:
    listed = {page for pages in stage.CONTENTS.values() for page in pages.values()}
    written = [*DOCS.glob("*.md"), *NOTEBOOKS]
    own = {path.relative_to(ROOT).with_suffix("").as_posix() for path in written} - {"docs/README"}
    assert own <= listed
    made = {name.removesuffix(".md") for name in stage.own_pages().keys() | stage.generated_pages().keys()}
    assert listed - made == {f"docs/notebooks/{path.stem}" for path in NOTEBOOKS}


def test_links_to_the_readme_and_to_directories_lead_to_their_pages(stage: ModuleType) -> None:
    pages = stage.own_pages()
    assert "[which file does what](../code.md#how-to-read-the-code)" in pages["docs/adding-an-agent.md"]
    assert "[decisions](decisions/README.md)" in pages["docs/README.md"]
    assert pages["index.md"].startswith("# bdqn: Bayesian DQN\n")
    assert "What to change where" in pages["code.md"]


def test_settings_presets_and_commands_are_those_of_the_code(stage: ModuleType) -> None:
    pages = stage.generated_pages()
    named = set(re.findall(r"^\| `(\w+)` \|", pages["reference/settings.md"], re.MULTILINE))
    classes = [Training, *(recipe.settings for recipe in AGENTS.values())]
    assert {name for cls in classes for name in settings_of(cls)} <= named
    assert "integer\u00a0≥\u00a01 |" in pages["reference/settings.md"], "the sign stays beside its number"
    assert "| `gamma` | number, 0 to 1 | 0.99 | discount factor |" in pages["reference/settings.md"]
    assert all(f"## `{name}`\n" in pages["reference/presets.md"] for name in preset_names())
    assert "| `posterior_batch_size` | 100000 |" in pages["reference/presets.md"]
    assert all(f"\nusage: bdqn {name} " in pages["reference/command-line.md"] for name in COMMANDS)


def test_the_gallery_shows_every_experiment_with_a_figure_if_it_has_one(stage: ModuleType) -> None:
    page = stage.generated_pages()["reference/experiments.md"]
    for folder in (path.parent for path in (ROOT / "experiments").glob("*/README.md")):
        assert f"(/experiments/{folder.name}/README.md)" in page
        figures = [path.relative_to(folder) for path in folder.glob("results/**/*.png")]
        shows = "![" in (folder / "README.md").read_text()
        findings = shows or any("quick" not in path.parts for path in figures)
        assert (f"(/experiments/{folder.name}/results/" in page) == findings


def test_a_trial_run_has_no_figure_in_the_gallery_unless_its_page_has(stage: ModuleType, tmp_path: Path) -> None:
    gallery = importlib.import_module("gallery")
    (tmp_path / "results" / "quick").mkdir(parents=True)
    (tmp_path / "results" / "quick" / "a.png").touch()
    assert gallery.figure(tmp_path, "# Title\n") is None
    assert gallery.figure(tmp_path, "![It](results/quick/a.png)") == "results/quick/a.png"
    (tmp_path / "results" / "z.png").touch()
    assert gallery.figure(tmp_path, "# Title\n") == "results/z.png"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_notebooks_are_kept_without_output(path: Path) -> None:
    """It belongs to the site, where it is made anew."""
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
