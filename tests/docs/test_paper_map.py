"""What the documentation names exists: functions, settings, metrics, presets' values, links and numbered deviations."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bdqn.agents.bdqn import Settings
from bdqn.cli.options import text_of
from bdqn.config.resolve import configure
from bdqn.config.settings import settings_of
from bdqn.qlearning.bonuses import Bonuses
from bdqn.qlearning.diagnostics import POSTERIOR_METRICS
from bdqn.runs.writer import ROLLOUT_METRICS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
DOTTED = re.compile(r"`(bdqn(?:\.\w+)+)(?:\([^`]*\))?`")
LINK = re.compile(r"(?<!!)\[[^]]*\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")  # no images: `make demo` draws them


def text_of_page(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def resolve(dotted: str) -> Any:
    """What a dotted name stands for: a module, or an attribute of one, or a field of a dataclass."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        name = ".".join(parts[:cut])
        try:
            place = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name and not name.startswith(f"{error.name}."):
                raise  # the module is there, but something that it needs is not
            continue
        for part in parts[cut:]:
            fields = getattr(place, "__dataclass_fields__", {})
            place = fields[part] if part in fields else getattr(place, part)
        return place
    raise ModuleNotFoundError(dotted)


def anchors(page: Path) -> set[str]:
    """Headings as GitHub turns them into anchors."""
    headings = re.findall(r"^#+ (.*)$", text_of_page(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_name_exists(page: Path) -> None:
    for dotted in sorted(set(DOTTED.findall(text_of_page(page)))):
        try:
            resolve(dotted)
        except (ModuleNotFoundError, AttributeError) as error:
            pytest.fail(f"{page.name} names {dotted}: {error}")


@pytest.mark.parametrize(
    "name", ["bdqn.qlearning.agent.QAgent.no_such", "bdqn.no_such.thing", "bdqn.qlearning.choices.Fit.no_such"]
)
def test_a_name_that_does_not_exist_is_found_out(name: str) -> None:
    with pytest.raises((ModuleNotFoundError, AttributeError)):
        resolve(name)


def test_the_map_names_the_parts_of_the_algorithm() -> None:
    """Guards the pattern above: a map in which it found nothing would pass."""
    named = set(DOTTED.findall(text_of_page(ROOT / "docs" / "paper-map.md")))
    assert {
        "bdqn.bayes.posterior.fit",
        "bdqn.qlearning.targets.TDTargets.td_target",
        "bdqn.networks.heads.BayesianHead.draw",
    } <= named
    assert dataclasses.is_dataclass(resolve("bdqn.qlearning.choices.Choices"))
    assert resolve("bdqn.qlearning.choices.Fit.interval").name == "interval"  # a field without default


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(text_of_page(page)):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{page.name} links to {target}#{anchor}"


def rows_of(page: Path) -> dict[str, list[str]]:
    """Rows of tables that begin with a name in backticks: name -> the other cells."""
    lines = [line.strip().strip("|").split(" | ") for line in text_of_page(page).splitlines() if line.startswith("| `")]
    return {cells[0].strip(" `"): [cell.strip(" |") for cell in cells[1:]] for cells in lines}


def test_the_page_of_bdqn_has_every_setting_with_the_presets_values() -> None:
    rows = rows_of(ROOT / "docs" / "algorithms" / "bdqn.md")
    values = [configure("bdqn", "classic", preset).values for preset in ("paper", "reference-code", "default")]
    for name in settings_of(Settings):
        assert rows[name][:3] == [text_of(value[name]) for value in values], name


def test_every_metric_has_its_formula() -> None:
    pages = ROOT / "docs" / "algorithms"
    assert set(POSTERIOR_METRICS) <= rows_of(pages / "bdqn.md").keys()
    assert {*ROLLOUT_METRICS, "train/loss"} <= rows_of(pages / "ddqn.md").keys()
    assert set(Bonuses.metric_names) <= rows_of(pages / "dqn-counts.md").keys()


def test_deviations_are_numbered_without_gaps_and_no_other_is_referred_to() -> None:
    page = text_of_page(ROOT / "docs" / "paper-map.md")
    for letter, pattern in (("D", r"^(\d+)\. \*\*D(\d+),"), ("R", r"^\| R()(\d+) \|")):
        found = re.findall(pattern, page, flags=re.MULTILINE)
        numbers = [int(number) for _, number in found]
        assert numbers == list(range(1, len(numbers) + 1))
        assert all(item in ("", number) for item, number in found)  # D7 is item 7 of the list
        pages = [page for page in PAGES if page.name != "reliability.md"]  # which numbers promises of its own
        referred = {int(n) for p in pages for n in re.findall(rf"\b{letter}(\d+)\b", text_of_page(p))}
        assert referred <= set(numbers)


def test_every_promise_of_reliability_names_its_own_test() -> None:
    page, _ = text_of_page(ROOT / "docs" / "reliability.md").split("## Measured")
    promises = dict(re.findall(r"^\| R(\d+) \|(.*)\|$", page, flags=re.MULTILINE))
    assert list(promises) == [str(number) for number in range(1, 23)]
    for number, row in promises.items():
        tests = re.findall(rf"tests/reliability/test_r{int(number):02d}_\w+\.py", row)
        assert "not built yet" in row or (len(tests) == 1 and (ROOT / tests[0]).is_file()), row


RIVALS = ["bbq", "bootstrapped", "dqn-counts", "dqn-cts", "linpsrl", "ls-dqn", "noisy", "ucbvi", "ucrl2"]


@pytest.mark.parametrize("name", RIVALS)
def test_a_rivals_page_numbers_its_deviations_and_says_what_it_costs(name: str) -> None:
    page = text_of_page(ROOT / "docs" / "algorithms" / f"{name}.md")
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    (deviations,) = (text for title, text in sections.items() if title.startswith("Deviations"))
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", deviations, flags=re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1)) != []
    assert re.search(r"\d( ms|\.\d+ s|\d s)\b|\| \d", sections["Cost"]), "no time"
    if "What it is" in sections:
        assert re.search(r"^\| .*`bdqn\.", sections["What it is"], flags=re.MULTILINE), "no table of what differs"
    else:
        assert "`bdqn." in sections["The algorithm"], "does not say where its algorithm is"


def test_every_rival_that_the_paper_names_is_in_the_map() -> None:
    page = text_of_page(ROOT / "docs" / "paper-map.md")
    section = page.split("## Rivals that the paper names")[1].split("\n## ")[0]
    linked = set(re.findall(r"\(algorithms/([\w-]+)\.md\)", section))
    assert linked == {*RIVALS, "dropout"} - {"linpsrl"}
    assert "PixelCNN" in section
    assert "Reactor" in section
