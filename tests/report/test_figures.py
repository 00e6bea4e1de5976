"""Figures show every run, and lines that can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bdqn.report.figures import (
    COLORS,
    draw_learning_curves,
    draw_mean,
    draw_posterior,
    label,
    look,
    save,
    settings_figure,
)
from bdqn.report.load import Run, learning_curve


def run_of(steps: list[int], returns: list[float]) -> Run:
    return Run(Path(), {"agent": "bdqn", "seed": 0}, np.array(steps, float), np.array(returns), np.ones(len(steps)))


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
