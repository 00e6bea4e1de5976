"""Reports read run directories as they are written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bdqn.cli import main
from bdqn.report.load import DamagedFile, read_run, read_table


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert (
        main(["train", "--agent", "random", "--env", "CartPole-v1", "--steps", "300", "--out", str(folder), "--quiet"])
        == 0
    )
    run = read_run(folder)
    assert (run.agent, run.seed) == ("random", 0)
    assert len(run.step) == len((folder / "episodes.csv").read_text().splitlines()) - 1 > 3
    np.testing.assert_array_equal(run.raw_return, run.length)  # CartPole pays 1 per decision
    np.testing.assert_array_equal(np.cumsum(run.length), run.step)


def test_an_empty_cell_is_not_a_number(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("step,loss\n1,\n2,0.5\n")
    np.testing.assert_array_equal(read_table(tmp_path / "table.csv")["loss"], [np.nan, 0.5])


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a run directory"):
        read_run(tmp_path)
    (tmp_path / "table.csv").write_text("")
    with pytest.raises(ValueError, match="is empty"):
        read_table(tmp_path / "table.csv")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("step,loss\n1,2\n2\n", "line 3 has 1 cells, but the heading has 2"),
        ("step,loss\n1,x\n", "could not convert string to float: 'x'"),
        ("loss\n1\n", "the column step is missing"),
        ("step,loss\n\xff\n", "invalid start byte"),
    ],
)
def test_a_damaged_table_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DamagedFile) as caught:
        read_table(path, ("step",))
    assert str(caught.value).startswith(f"{path}: ")
    assert problem in str(caught.value)
