"""The paper's drawings hold what they claim."""

from __future__ import annotations

import numpy as np

from bdqn.report.drawings import draws_figure


def test_draws_close_in_on_the_truth() -> None:
    figure = draws_figure(np.random.default_rng(0))
    spreads = []
    for axes in figure.axes:
        draws, mean, truth = (line.get_xydata() for line in axes.lines)
        assert len(draws) == 300
        spread = draws.std(0)
        np.testing.assert_allclose(draws.mean(0), mean[0], atol=4 * spread.max() / 300**0.5)
        assert (np.abs(truth[0] - mean[0]) < 3 * spread).all(), "the truth is among the draws"
        spreads.append(spread.mean())
    assert spreads[0] > 2 * spreads[1] > 4 * spreads[2]
