"""Reports read run directories as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bdqn.cli import main
from bdqn.report.figures import (
    COLORS,
    draw_learning_curves,
    draw_mean,
    draw_posterior,
    label,
    learning_curve,
    look,
    save,
    settings_figure,
)
from bdqn.report.load import DamagedFile, Run, read_run, read_table


def run_of(steps: list[int], returns: list[float]) -> Run:
    return Run(Path(), {"agent": "bdqn", "seed": 0}, np.array(steps, float), np.array(returns), np.ones(len(steps)))


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
    with pytest.raises(FileNotFoundError, match="no run directory"):
        read_run(tmp_path)
    (tmp_path / "table.csv").write_text("")
    with pytest.raises(ValueError, match="is empty"):
        read_table(tmp_path / "table.csv")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("step,loss\n1,2\n2\n", "line 3 has 1 cells, where the heading has 2"),
        ("step,loss\n1,x\n", "could not convert string to float: 'x'"),
        ("loss\n1\n", "it has no step"),
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


def test_a_learning_curve_averages_the_episodes_that_had_ended() -> None:
    run = run_of([10, 20, 30, 40], [1.0, 3.0, 5.0, 7.0])
    curve = learning_curve(run, np.array([5.0, 10.0, 29.0, 40.0]), window=2)
    np.testing.assert_array_equal(curve, [np.nan, 1.0, 2.0, 6.0])


def test_figures_have_every_seed_every_agent_and_every_action(tmp_path: Path) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    runs = [run_of([10, 20], [1.0, 2.0]), run_of([15, 30], [0.0, 4.0])]
    draw_learning_curves(left, {"Bayesian DQN": runs, "Double DQN": runs[:1]}, steps=40)
    assert len(left.lines) == 5  # three seeds, two means
    draw_posterior(right, np.arange(3.0), np.zeros((3, 2)), np.ones((3, 2)), ("left", "right"), "position")
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["left", "right"]
    save(figure, tmp_path / "deep" / "figure.png")
    assert (tmp_path / "deep" / "figure.png").stat().st_size > 5000


def told_apart(lines: Sequence[Any]) -> int:
    return len({(line.get_color(), str(line._dash_pattern)) for line in lines})


def test_more_lines_than_colours_are_all_drawn_and_told_apart() -> None:
    names, rng, x = [f"line {i}" for i in range(13)], np.random.default_rng(0), np.arange(3.0)
    figure = Figure()
    curves, beliefs, means = figure.subplots(3)
    draw_learning_curves(curves, {name: [run_of([10, 20], [1.0, 2.0])] for name in names}, steps=40)
    draw_posterior(beliefs, x, np.zeros((3, 13)), np.ones((3, 13)), names, "position")
    for i, name in enumerate(names):
        draw_mean(means, x, np.zeros((2, 3)), i, name, rng)
    label(means, "x", "y")
    settings = settings_figure({"title": {name: {"0": (1.0, 0.0, 2.0)} for name in names}}, "x", "y")
    for axes in (curves, beliefs, means):
        legend = axes.get_legend()
        assert legend is not None
        assert [text.get_text() for text in legend.get_texts()] == names
        assert told_apart(legend.get_lines()) == 13
        assert legend.get_window_extent().x0 >= axes.bbox.x1, "beside the lines, not upon them"
    (legend,) = settings.legends
    settings.draw_without_rendering()
    assert [text.get_text() for text in legend.get_texts()] == names
    assert told_apart([container[0] for container in settings.axes[0].containers]) == 13
    assert legend.get_window_extent().y1 <= settings.axes[0].get_tightbbox().y0, "below the lines, not upon them"
    assert [look(i) for i in range(7)] == [{"color": color, "linestyle": "-"} for color in COLORS], "as they were"
