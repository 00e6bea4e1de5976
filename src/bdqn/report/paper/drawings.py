"""The paper's three drawings. The paper prints no numbers with them; these are ours."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from bdqn.bayes.noise import Fixed
from bdqn.bayes.posterior import Moments, Prior, fit
from bdqn.report.figures import COLORS, encoded, name_axes
from bdqn.report.html import Html, png_uri, tag
from bdqn.report.paper.illustrations import Belief, exploration_figure, safety_figure

# Chosen to show what the paper's text says.
WELL_KNOWN: Belief = (np.array([1.0, 0.85, 0.8, 0.75, 0.2, 0.1]), np.full(6, 0.05))
ONE_UNKNOWN: Belief = (np.array([1.0, 0.8, 0.6, 0.5, 0.85, 0.85]), np.array([0.05, 0.05, 0.05, 0.05, 0.05, 0.5]))
SAME_MEAN: Belief = (np.array([1.0, 1.0]), np.array([0.25, 0.75]))
BELIEFS = {"(a) every value is well known": WELL_KNOWN, "(b) action 6 is almost unknown": ONE_UNKNOWN}
OURS = "Redrawn: the numbers are ours, chosen to show what the paper's text says. It gives none."
SAFETY_NAMES = ("action 1, well known", "action 2, less well known")


def draws_figure(rng: np.random.Generator, counts: tuple[int, ...] = (3, 30, 300)) -> Figure:
    """Draws of an action's weights around their posterior mean: with more data they concentrate on the true weights."""
    truth, noise_var = np.array([0.8, -0.4]), 0.5
    x = rng.standard_normal((max(counts), 2))
    y = x @ truth + np.sqrt(noise_var) * rng.standard_normal(len(x))
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    for axes, count in zip(figure.subplots(1, len(counts), sharex=True, sharey=True), counts, strict=True):
        posterior = fit(Moments.zero(2).add(x[:count], y[:count]), Prior(1.0, Fixed(noise_var)))
        axes.plot(*posterior.sample(rng, 300).T, ".", color=COLORS[0], alpha=0.25, markersize=5, label="draws")
        # The arms of the cross are longer than the dot is wide: both stay visible where they coincide.
        axes.plot(*truth, "+", color="black", markersize=18, markeredgewidth=1.3, label="true weights")
        axes.plot(*posterior.mean, "o", color=COLORS[1], markersize=4, label="posterior mean")
        axes.set_title(f"after {count} transitions", loc="left", fontsize=10)
        name_axes(axes, "first weight")
    figure.axes[0].set_ylabel("second weight")
    figure.axes[-1].legend(frameon=False, fontsize=8, loc="upper left", labelspacing=1.1)  # away from its draws
    return figure


def drawings(rng: np.random.Generator) -> list[Html]:
    """All three drawings as images for a page; each caption says that the numbers are ours."""
    return [
        _picture("Draws around the posterior mean", draws_figure(rng)),
        _picture("Thompson sampling, epsilon-greedy and Boltzmann", exploration_figure(BELIEFS, rng)),
        _picture("Safety: the same mean, a different spread", safety_figure(*SAME_MEAN, names=SAFETY_NAMES)),
    ]


def _picture(title: str, figure: Figure) -> Html:
    picture = tag("img", src=png_uri(encoded(figure, dpi=110)), alt=title, class_="drawing")
    return tag("div", tag("h3", title), tag("figure", tag("figcaption", OURS), picture))
