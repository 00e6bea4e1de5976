"""docs/performance.md says what benchmarks/results holds."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("page")


def test_every_table_is_made_from_the_measurements(page: ModuleType) -> None:
    text = page.PAGE.read_text()
    assert page.filled(text) == text


def test_a_changed_measurement_changes_the_page(page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = page.read_rows("startup")
    slower = [{**row, "seconds": "7.5"} for row in rows]
    read = page.read_rows
    monkeypatch.setattr(page, "read_rows", lambda name: slower if name == "startup" else read(name))
    text = page.filled(page.PAGE.read_text())
    assert "| `bdqn --help` | 7.50 (7.50 to 7.50) s | 0.5 s: **missed** |" in text


def test_every_target_has_a_verdict(page: ModuleType) -> None:
    tables = [make() for make in page.TABLES.values()]
    verdicts = sum(table.count(": met |") + table.count(": **missed** |") for table in tables)
    assert verdicts == len(page.TRAINING_TARGETS) + len(page.loop()) + 2 + 1 + 2
