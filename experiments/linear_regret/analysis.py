"""Regret of the linear algorithms: figures and growth rates.

Reads the tables that run.py writes, and runs nothing: python experiments/linear_regret/analysis.py
"""

from __future__ import annotations

import numpy as np

from bdqn.report.experiment import Page
from bdqn.report.figures import COLORS
from bdqn.report.study_pages import (
    Sections,
    column,
    draw_with_band,
    episodes,
    finish,
    names,
    panels,
    read,
    slope,
    write_page,
)


def regret_in_t(page: Page) -> None:
    rows = read(page, "regret-in-t")
    sentences = []
    figure, axes = panels(3, 4.2)
    for panel, horizon in zip(axes, names(rows, "horizon"), strict=True):
        for color, agent in zip(COLORS, names(rows, "agent"), strict=False):
            mine = [row for row in rows if row["horizon"] == horizon and row["agent"] == agent]
            fitted = next(row for row in mine if row["episode"] == "exponent")
            exponent, low, high = (float(fitted[name]) for name in ("regret", "low", "high"))
            sentences.append(f"H = {horizon}, {agent}: T^{exponent:.2f} ({low:.2f} to {high:.2f})")
            curve = [row for row in mine if row["episode"] != "exponent"]
            draw_with_band(panel, curve, "episode", color, f"{agent}: T^{exponent:.2f}")
            if agent in ("linucb", "linpsrl"):
                t = column(curve, "episode")
                panel.plot(t, column(curve, "certificate"), color=color, linestyle="--")
                panel.plot(t, column(curve, "bound"), color=color, linestyle="-.")
        panel.plot(t, t, color="0.6", linestyle=":")
        finish(panel, f"linear-q, H = {horizon}", "episodes, T", "regret", log="xy")
    legend = "Solid: exact regret. Dashed: certificate. Dash-dotted: corrected bound. Dotted: T, not learning"
    figure.suptitle(legend, fontsize=9)
    page.points(sentences)
    page.figure("regret-in-t.png", figure)


def regret_in_d_and_h(page: Page) -> None:
    figure, (by_dim, by_horizon) = panels(2)
    sentences = []
    rows = read(page, "regret-in-d")
    for color, agent in zip(COLORS, names(rows, "agent"), strict=False):
        mine = [row for row in rows if row["agent"] == agent]
        rate = slope(column(mine, "dim"), column(mine, "regret"))
        sentences.append(f"regret in d, {agent}: d^{rate:.2f}")
        draw_with_band(by_dim, mine, "dim", color, f"{agent}: d^{rate:.2f}", "o")
        if agent == "linucb":
            dims, certificate = column(mine, "dim"), column(mine, "certificate")
            rate = slope(dims, certificate)
            sentences.append(f"certificate in d, {agent}: d^{rate:.2f}")
            by_dim.plot(dims, certificate, "o--", color=color, label=f"certificate: d^{rate:.2f}")
    by_dim.set_xscale("log", base=2)
    by_dim.xaxis.set_major_formatter("{x:.0f}")
    title = f"bandit, 20 contexts, 50 arms, T = {episodes(page, 'regret-in-d')}"
    finish(by_dim, title, "features, d", "regret", log="y")
    rows = read(page, "regret-in-h")
    for color, agent in zip(COLORS, names(rows, "agent"), strict=False):
        mine = [row for row in rows if row["agent"] == agent]
        draw_with_band(by_horizon, mine, "horizon", color, agent, "o")
        if agent == "linucb":
            for name, style in (("certificate", "o--"), ("printed_bound", "o:"), ("corrected_bound", "o-.")):
                label = name.replace("_", " ")
                by_horizon.plot(column(mine, "horizon"), column(mine, name), style, color=color, label=label)
    title = f"linear-q, T = {episodes(page, 'regret-in-h')}"
    finish(by_horizon, title, "steps per episode, H", "regret", log="y")
    page.points(sentences)
    page.figure("regret-in-d-and-h.png", figure)


def coverage(page: Page) -> None:
    rows = read(page, "coverage")
    groups = [("linear-q", "0.02", "True"), ("linear-q", "0.02", "False"), ("linear-q", "0.1", "True")]
    figure, axes = panels(3, 3.4)
    for panel, (family, noise, clip) in zip(axes, groups, strict=True):
        for i, radius in enumerate(names(rows, "radius")):
            key = {"family": family, "noise": noise, "clip": clip, "radius": radius}
            mine = [row for row in rows if key.items() <= row.items()]
            at = column(mine, "horizon") + 0.27 * (i - 1)
            panel.bar(at, column(mine, "always_covered"), 0.25, color=COLORS[i], label=radius)
        panel.axhline(0.9, color="0.4", linestyle=":", label="promised")
        panel.set_xticks([1, 2, 3, 4])
        title = f"noise {noise}, values {'cut to [0, 1]' if clip == 'True' else 'not cut, as printed'}"
        finish(panel, title, "steps per episode, H", "instances always covered", legend=False)
    figure.legend(*axes[0].get_legend_handles_labels(), ncols=4, loc="outside upper center", frameon=False, fontsize=8)
    page.figure("coverage.png", figure)


def prior_scale(page: Page) -> None:
    rows = read(page, "prior-scale")
    figure, (panel,) = panels(1)
    for color, family in zip(COLORS, names(rows, "family"), strict=False):
        mine = [row for row in rows if row["family"] == family]
        draw_with_band(panel, mine, "prior_var_over_default", color, family, "o")
    panel.axvline(1, color="0.6", linestyle=":")
    title = f"LinPSRL, {episodes(page, 'prior-scale')} episodes"
    finish(panel, title, "prior variance, in units of L_omega² / d", "regret", log="xy")
    page.figure("prior-scale.png", figure)


def deep_sea(page: Page) -> None:
    rows = read(page, "deep-sea")
    sentences = []
    figure, axes = panels(2, 3.4)
    for panel, size in zip(axes, names(rows, "size"), strict=True):
        here = [row for row in rows if row["size"] == size]
        agents = names(here, "agent")
        for i, (color, agent) in enumerate(zip(COLORS, agents, strict=False)):
            mine = [row for row in here if row["agent"] == agent]
            met, solved = column(mine, "first_treasure"), column(mine, "solved_at")
            place = np.full(len(mine), i)
            panel.plot(met, place + 0.15, "|", color=color)
            panel.plot(solved, place - 0.15, "o", markersize=4, alpha=0.6, color=color)
            seeds = f"met on {np.isfinite(met).sum()}, solved on {np.isfinite(solved).sum()} of {len(mine)} seeds"
            sentences.append(f"DeepSea {size}, {agent}: treasure {seeds}")
        panel.set_yticks(range(len(agents)), agents, fontsize=7)
        panel.set_xlim(0, float(here[0]["episodes"]))
        panel.set_ylim(-0.5, len(agents) - 0.5)
        finish(panel, f"DeepSea N = {size}: first treasure (|), solved (o)", "episodes", "", legend=False)
    page.points(sentences)
    page.figure("deep-sea.png", figure)


def widths(page: Page) -> None:
    rows = read(page, "widths")
    sentences = []
    figure, axes = panels(3, 3.4)
    for panel, horizon in zip(axes, names(rows, "horizon"), strict=True):
        here = [row for row in rows if row["horizon"] == horizon]
        for color, step in zip(COLORS, names(here, "step"), strict=False):
            mine = [row for row in here if row["step"] == step]
            t, width = column(mine, "episode"), column(mine, "width")
            late = t >= t[-1] / 10
            rate = slope(t[late], width[late])
            sentences.append(f"widths, H = {horizon}, step {step}: t^{rate:.2f}")
            panel.plot(t, width, color=color, label=f"h = {step}: t^{rate:.2f}")
        panel.plot(t, t**-0.5, color="0.6", linestyle=":", label="1 / sqrt(t)")
        finish(panel, f"linear-q, LinUCB, H = {horizon}", "episodes, t", "width of what is played", log="xy")
    page.points(sentences)
    page.figure("widths.png", figure)


SECTIONS: Sections = {
    "In T": (regret_in_t, ("regret-in-t",)),
    "In d and H": (regret_in_d_and_h, ("regret-in-d", "regret-in-h")),
    "Coverage": (coverage, ("coverage",)),
    "Prior scale": (prior_scale, ("prior-scale",)),
    "DeepSea": (deep_sea, ("deep-sea",)),
    "Widths": (widths, ("widths",)),
}

write_page(__file__, "Regret of the linear algorithms", "coverage", SECTIONS)
