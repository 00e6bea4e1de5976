"""The paper's two illustrations for any belief: how agents explore, and which action is safe.

A belief is a mean and a standard deviation per action, as ``learner.q_posterior(obs)`` returns for one observation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from scipy.special import ndtri

from bdqn.qlearning import action_probabilities, safety
from bdqn.report.figures import COLORS, name_axes
from bdqn.report.load import Array

Belief = tuple[Array, Array]  # mean and standard deviation, (actions,) each


def exploration_figure(
    beliefs: Mapping[str, Belief], rng: np.random.Generator, *, epsilon: float = 0.1, temperature: float = 0.3
) -> Figure:
    """The belief about every action, and how often three exploration strategies take it; a column per belief."""
    figure = Figure(figsize=(5.2 * len(beliefs), 7.6), layout="constrained")
    panels = figure.subplots(4, len(beliefs), squeeze=False, height_ratios=[2.4, 1, 1, 1], sharex="col", sharey="row")
    for column, (title, (mean, std)) in zip(panels.T, beliefs.items(), strict=True):
        _check(mean, std)
        column[0].set_title(title, loc="left")
        _draw_belief(column[0], mean, std)
        shares = {
            f"epsilon-greedy, epsilon {epsilon:g}": action_probabilities.epsilon_greedy_probabilities(mean, epsilon),
            f"Boltzmann, temperature {temperature:g}": action_probabilities.boltzmann_probabilities(mean, temperature),
            "Thompson sampling": action_probabilities.thompson_probabilities(mean, std, rng),
        }
        for axes, color, (name, share) in zip(column[1:], COLORS[1:], shares.items(), strict=False):
            _draw_shares(axes, share, color, name)
        column[-1].set_xlabel("action")
    panels[0, 0].set_ylabel("Q: mean, ± 1 and ± 2 std")
    for axes in panels[1:, 0]:
        axes.set_ylabel("taken")
    return figure


def _draw_belief(axes: Axes, mean: Array, std: Array) -> None:
    action = np.arange(1, len(mean) + 1)
    axes.axhline(mean.max(), color="0.75", linewidth=1, linestyle=":", zorder=0)
    for spread, width in ((2 * std, 1.5), (std, 5.0)):
        axes.vlines(action, mean - spread, mean + spread, color=COLORS[0], linewidth=width, alpha=0.6)
    axes.plot(action, mean, "o", color="white", markeredgecolor=COLORS[0], markersize=7, markeredgewidth=1.5)
    axes.set_xticks(action)
    name_axes(axes)


def _draw_shares(axes: Axes, share: Array, color: str, name: str) -> None:
    action = np.arange(1, len(share) + 1)
    axes.bar(action, share, width=0.6, color=color)
    for x, value in zip(action, share, strict=True):
        axes.annotate(_percent(value), (x, value), (0, 2), textcoords="offset points", ha="center", fontsize=8)
    axes.set_title(name, loc="left", fontsize=10, color=color)
    axes.set_ylim(0, 1.15)
    axes.set_yticks([0, 0.5, 1])
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    name_axes(axes)


def _percent(share: float) -> str:
    return "< 1 %" if share < 0.01 else f"{100 * share:.0f} %"


def safety_figure(mean: Array, std: Array, *, alpha: float = 0.05, names: Sequence[str] | None = None) -> Figure:
    """The distribution of each action's value, its ``alpha`` quantile, and the mean below that quantile."""
    _check(mean, std)
    if not (std > 0).all():
        raise ValueError("safety_figure needs positive standard deviations: a certain value has no spread to draw.")
    names = names or [f"action {i + 1}" for i in range(len(mean))]
    bound = safety.lower_confidence_bound(mean, std, scale=-float(ndtri(alpha)))
    risk = safety.conditional_value_at_risk(mean, std, alpha=alpha)
    value = np.linspace((mean - 4 * std).min(), (mean + 4 * std).max(), 800)
    figure = Figure(figsize=(7.6, 0.6 + 1.7 * len(mean)), layout="constrained")
    panels = figure.subplots(len(mean), 1, squeeze=False, sharex=True, sharey=True)[:, 0]
    for i, axes in enumerate(panels):
        density = np.exp(-(((value - mean[i]) / std[i]) ** 2) / 2) / (std[i] * np.sqrt(2 * np.pi))
        tail = value <= bound[i]
        axes.fill_between(value, density, color=COLORS[0], alpha=0.25, linewidth=0)
        axes.fill_between(value[tail], density[tail], color=COLORS[1], linewidth=0)
        axes.plot(value, density, color=COLORS[0])
        axes.axvline(mean[i], color="0.4", linewidth=1, linestyle=":")
        safest = ": the safest" if bound[i] == bound.max() else ""
        axes.set_title(f"{names[i]}{safest}", loc="left", fontsize=10, weight="bold" if safest else "normal")
        tails = f"worst {100 * alpha:g} %: below {bound[i]:.2f},\non average {risk[i]:.2f}"
        text = f"mean {mean[i]:.2f}, std {std[i]:.2f}\n{tails}"
        axes.text(0.995, 0.95, text, transform=axes.transAxes, ha="right", va="top", fontsize=9)
        axes.set_yticks([])
        axes.set_ylim(0)
        axes.spines[["top", "right", "left"]].set_visible(False)
    panels[-1].set_xlabel("value of the action")
    return figure


def _check(mean: Array, std: Array) -> None:
    if mean.ndim != 1 or mean.shape != std.shape:
        raise ValueError(
            f"mean and std must have shape (actions,), of one observation, not {mean.shape} and {std.shape}."
        )
