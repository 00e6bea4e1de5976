"""The paper's three drawings, made with numbers: it prints none with them, so these are ours."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.figure import Figure

from bdqn.bayes.posterior import Fixed, Moments, Prior, fit
from bdqn.report.figures import COLORS
from bdqn.report.html import Html, png_uri, tag
from bdqn.report.paper.illustrations import Belief, exploration_figure, safety_figure

# Chosen to show what the paper's text says of them.
WELL_KNOWN: Belief = (np.array([1.0, 0.85, 0.8, 0.75, 0.2, 0.1]), np.full(6, 0.05))
ONE_UNKNOWN: Belief = (np.array([1.0, 0.8, 0.6, 0.5, 0.85, 0.85]), np.array([0.05, 0.05, 0.05, 0.05, 0.05, 0.5]))
SAME_MEAN: Belief = (np.array([1.0, 1.0]), np.array([0.25, 0.75]))
BELIEFS = {"(a) every value is well known": WELL_KNOWN, "(b) action 6 is hardly known": ONE_UNKNOWN}
OURS = "Drawn anew: the numbers are ours, chosen to show what the paper says; its text gives none."
SAFETY_NAMES = ("action 1, well known", "action 2, less so")


def draws_figure(rng: np.random.Generator, counts: tuple[int, ...] = (3, 30, 300)) -> Figure:
    """Draws of an action's weights around their posterior mean, which the truth is among; more data, closer draws."""
    truth, noise_var = np.array([0.8, -0.4]), 0.5
    x = rng.standard_normal((max(counts), 2))
    y = x @ truth + np.sqrt(noise_var) * rng.standard_normal(len(x))
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    for axes, count in zip(figure.subplots(1, len(counts), sharex=True, sharey=True), counts, strict=True):
        posterior = fit(Moments.zero(2).add(x[:count], y[:count]), Prior(1.0, Fixed(noise_var)))
        axes.plot(*posterior.sample(rng, 300).T, ".", color=COLORS[0], alpha=0.25, markersize=5, label="draws")
        # A cross with arms longer than the dot is wide: where they coincide, both are seen.
        axes.plot(*truth, "+", color="black", markersize=18, markeredgewidth=1.3, label="true weights")
        axes.plot(*posterior.mean, "o", color=COLORS[1], markersize=4, label="posterior mean")
        axes.set_title(f"after {count} transitions", loc="left", fontsize=10)
        axes.set_xlabel("first weight")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("second weight")
    figure.axes[-1].legend(frameon=False, fontsize=8, loc="upper left", labelspacing=1.1)  # its draws are elsewhere
    return figure


def drawings(rng: np.random.Generator) -> list[Html]:
    """All three, as pictures within a page; each says whose numbers it shows."""
    return [
        _picture("Draws around the posterior mean", draws_figure(rng)),
        _picture("Thompson sampling, epsilon-greedy and Boltzmann", exploration_figure(BELIEFS, rng)),
        _picture("Safety: the same mean, another spread", safety_figure(*SAME_MEAN, names=SAFETY_NAMES)),
    ]


def _picture(title: str, figure: Figure) -> Html:
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=110)
    picture = tag("img", src=png_uri(png.getvalue()), alt=title, class_="drawing")
    return tag("div", tag("h3", title), tag("figure", tag("figcaption", OURS), picture))
