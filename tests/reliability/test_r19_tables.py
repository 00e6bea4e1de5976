"""The tables can be read whenever a run was killed, and a resumed run leaves neither gaps nor repetitions in them."""

from __future__ import annotations

import csv
import itertools
import json
import random
import time
from functools import partial
from pathlib import Path

import pytest

from support.cartpole import go_on, killed_at_random, train
from support.forks import Server

TABLES = ("episodes", "metrics", "timing", "monitor", "evaluations")
# Rows, checkpoints and evaluations at decisions that seldom meet.
UNEVEN = ("--log-freq", "70", "--save-freq", "110", "--eval-freq", "170")


def read(path: Path) -> list[dict[str, float]]:
    """The rows of a table, each of them whole; whatever is not a number is an error."""
    text = path.read_text()
    if not text:
        return []  # killed between the file and its heading
    assert text.endswith("\n")
    lines = text.splitlines()
    if path.name == "monitor.csv":
        assert json.loads(lines.pop(0).removeprefix("#"))["env_id"] == "CartPole-v1"
    columns, *rows = csv.reader(lines)
    assert all(len(row) == len(columns) for row in rows)
    return [{name: float(cell or "nan") for name, cell in zip(columns, row, strict=True)} for row in rows]


def check(folder: Path) -> dict[str, list[dict[str, float]]]:
    """All tables of a run with one environment, as far as they have come."""
    tables = {name: read(path) if (path := folder / f"{name}.csv").exists() else [] for name in TABLES}
    for name, column in [(name, "step") for name in TABLES if name != "monitor"] + [("timing", "seconds")]:
        values = [row[column] for row in tables[name]]
        assert all(a < b for a, b in itertools.pairwise(values)), (name, column)
    # Every episode is there once: their lengths add up to the decisions.
    sums = list(itertools.accumulate(row["length"] for row in tables["episodes"]))
    assert sums == [row["step"] for row in tables["episodes"]]
    times = [row["t"] for row in tables["monitor"]]
    assert times == sorted(times)
    return tables


@pytest.mark.parametrize(
    ("kills", "steps", "share"),
    [(6, 600, 0.6), pytest.param(200, 4_000, 0.15, marks=pytest.mark.long)],
    ids=["6", "200"],
)
def test_after_every_kill_and_at_the_end_all_tables_are_whole(
    forks: Server, tmp_path: Path, kills: int, steps: int, share: float
) -> None:
    began = time.monotonic()
    assert forks.run(*train(tmp_path / "unharmed", steps, *UNEVEN)).code == 0
    longest = (time.monotonic() - began) * share
    rng = random.Random(19)
    count = runs = 0
    while count < kills:
        runs += 1
        folder = tmp_path / f"run-{runs}"
        for _ in killed_at_random(forks, partial(go_on, folder, steps, *UNEVEN), rng, longest, kills - count):
            check(folder)
            count += 1
        tables = check(folder)
        for name, interval in (("metrics", 70), ("timing", 70), ("evaluations", 170)):
            assert [row["step"] for row in tables[name]] == list(range(interval, steps + 1, interval))
        episodes = [(row["return"], row["length"]) for row in tables["episodes"]]
        assert [(row["r"], row["l"]) for row in tables["monitor"]] == episodes
    print(f"The tables were whole after each of {count} kills, and at the end of {runs} runs.")
