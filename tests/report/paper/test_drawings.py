"""The paper's drawings hold what they claim."""

from __future__ import annotations

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from bdqn.report.paper.drawings import draws_figure


def test_draws_close_in_on_the_truth() -> None:
    figure = draws_figure(np.random.default_rng(0))
    spreads = []
    for axes in figure.axes:
        draws, truth, mean = (line.get_xydata() for line in axes.lines)
        assert len(draws) == 300
        spread = draws.std(0)
        np.testing.assert_allclose(draws.mean(0), mean[0], atol=4 * spread.max() / 300**0.5)
        assert (np.abs(truth[0] - mean[0]) < 3 * spread).all(), "the truth is among the draws"
        spreads.append(spread.mean())
    assert spreads[0] > 2 * spreads[1] > 4 * spreads[2]


def test_the_truth_and_the_mean_are_seen_where_they_coincide() -> None:
    figure = draws_figure(np.random.default_rng(0))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3] / 255  # from below, as points are counted
    for axes in figure.axes:
        _, truth, mean = axes.lines
        for line in (truth, mean):
            column, row = axes.transData.transform(line.get_xydata()[0]).round().astype(int)
            around = pixels[row - 15 : row + 15, column - 15 : column + 15]
            seen = np.abs(around - to_rgb(line.get_color())).max(-1) < 0.1
            assert seen.sum() > 10, (axes.get_title(loc="left"), line.get_label())
