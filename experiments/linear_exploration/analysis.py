"""Exploration of the linear algorithms: figures and tables.

Reads the tables that run.py writes, and runs nothing: python experiments/linear_exploration/analysis.py
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bdqn.report.experiment import Page
from bdqn.report.figures import COLORS
from bdqn.report.study_pages import (
    Row,
    Sections,
    column,
    draw_with_band,
    episodes,
    finish,
    names,
    panels,
    read,
    where,
    write_page,
)

FIXED = "linpsrl:inflation="


def with_interval(row: Row, digits: int = 3) -> str:
    regret, low, high = (f"{float(row[name]):.{digits}g}" for name in ("regret", "low", "high"))
    return f"{regret} ({low} to {high})"


def at_the_end(rows: Sequence[Row], **values: str) -> Row:
    return where(rows, **values)[-1]


def boldness(page: Page) -> None:
    rows = read(page, "boldness")
    problems, agents = names(rows, "problem"), names(rows, "agent")
    ends = {(p, a): at_the_end(rows, problem=p, agent=a) for p in problems for a in agents}
    fixed = [agent for agent in agents if agent.startswith(FIXED) and "/" not in agent]
    least = {p: min(float(ends[p, agent]["regret"]) for agent in fixed) for p in problems}
    lines = [["agent", *problems, "worst, over the best fixed inflation"]]
    for agent in agents:
        worst = max(float(ends[p, agent]["regret"]) / least[p] for p in problems)
        lines.append([agent, *(with_interval(ends[p, agent]) for p in problems), f"{worst:.1f}"])
    page.say(f"Regret after {episodes(page, 'boldness')} episodes, with 95 % intervals over seeds:")
    page.cells(lines)
    figure, axes = panels(len(problems))
    for panel, problem in zip(axes, problems, strict=True):
        at = [float(agent.removeprefix(FIXED)) for agent in fixed]
        mine = [ends[problem, agent] for agent in fixed]
        regret, low, high = (column(mine, name) for name in ("regret", "low", "high"))
        panel.errorbar(at, regret, [regret - low, high - regret], marker="o", color=COLORS[0], label="fixed inflation")
        mixtures = [agent for agent in agents if "/" in agent]
        for color, agent in zip(COLORS[1:], mixtures, strict=False):
            end = ends[problem, agent]
            label = agent.removeprefix(FIXED) if agent.count("/") < 3 else "all six"
            panel.axhline(float(end["regret"]), color=color, label=f"mixture {label}")
            panel.axhspan(float(end["low"]), float(end["high"]), color=color, alpha=0.15, linewidth=0)
        finish(panel, problem, "inflation", f"regret, T = {episodes(page, 'boldness')}", log="xy", legend=False)
    figure.legend(*axes[0].get_legend_handles_labels(), ncols=4, loc="outside upper center", frameon=False, fontsize=8)
    page.figure("boldness.png", figure)


def rivals(page: Page) -> None:
    rows = read(page, "rivals")
    agents = names(rows, "agent")
    figure, (panel,) = panels(1, 4.4)
    lines = [["agent", "regret", "optimistic plans"]]
    for color, agent in zip(COLORS * 2, agents, strict=False):
        mine = where(rows, agent=agent)
        draw_with_band(panel, mine, "episode", color, agent)
        lines.append([agent, with_interval(mine[-1], 4), f"{float(mine[-1]['optimistic']):.0%}"])
    page.say(f"Regret after {episodes(page, 'rivals')} episodes of RiverSwim; share of plans that were optimistic:")
    page.cells(lines)
    finish(panel, "river-swim", "episodes, T", "regret", log="xy")
    page.figure("rivals.png", figure)


def bayesian_regret(page: Page) -> None:
    rows = read(page, "bayesian-regret")
    changes = [name for name in names(rows, "changed") if len(where(rows, changed=name, horizon="1")) > 1]
    figure, axes = panels(len(changes))
    for panel, changed in zip(axes, changes, strict=True):
        for color, horizon in zip(COLORS, names(rows, "horizon"), strict=False):
            draw_with_band(panel, where(rows, changed=changed, horizon=horizon), "factor", color, f"H = {horizon}", "o")
        shifted = "deviations" in changed
        axis = changed if shifted else f"{changed}, over the right one"
        finish(panel, f"LinPSRL on gaussian-q, T = {episodes(page, 'bayesian-regret')}", axis, "Bayesian regret",
               log="y" if shifted else "xy")  # fmt: skip
    sentences = []
    for horizon in names(rows, "horizon"):
        (right,) = where(rows, changed="prior variance", factor="1", horizon=horizon)
        (wide,) = where(rows, changed="inflation sqrt(d)", horizon=horizon)
        bound = f", Theorem 1's bound {float(right['bound']):.3g}" if right["bound"] else ""
        sentences.append(
            f"H = {horizon}: Bayesian regret with the right prior {with_interval(right)}{bound}; "
            f"with draws inflated by sqrt(d) = {float(wide['factor']):g}: {with_interval(wide)}"
        )
    page.points(sentences)
    page.figure("bayesian-regret.png", figure)


def optimism(page: Page) -> None:
    rows = read(page, "optimism")
    figure, (shares, regret) = panels(2)
    for color, problem in zip(COLORS, names(rows, "problem"), strict=False):
        mine = where(rows, problem=problem)
        at = column(mine, "inflation")
        shares.plot(at, column(mine, "early"), "o--", color=color, label=f"{problem}, first tenth")
        shares.plot(at, column(mine, "late"), "o-", color=color, label=f"{problem}, last tenth")
        draw_with_band(regret, mine, "inflation", color, problem, "o")
    finish(shares, f"LinPSRL, {episodes(page, 'optimism')} episodes", "inflation", "share of optimistic draws", log="x")
    finish(regret, f"LinPSRL, T = {episodes(page, 'optimism')}", "inflation", "regret", log="xy")
    lines = [["problem", "inflation", "optimistic, first tenth", "last tenth", "regret"]]
    for row in rows:
        early, late = (f"{float(row[name]):.0%}" for name in ("early", "late"))
        lines.append([row["problem"], row["inflation"], early, late, with_interval(row)])
    page.cells(lines)
    page.figure("optimism.png", figure)


def lemmas(page: Page) -> None:
    rows = read(page, "lemmas")
    figure, (expectation, crossing) = panels(2)
    lines = [["problem", "E M, stopped", "largest E M_t", "ever above 1 / delta, by delta"]]
    for color, problem in zip(COLORS, names(rows, "problem"), strict=False):
        fixed = where(rows, problem=problem, what="E M_t")
        values, low, high = (column(fixed, name) for name in ("value", "low", "high"))
        expectation.plot(column(fixed, "at"), values, color=color, label=problem)
        expectation.fill_between(column(fixed, "at"), low, high, color=color, alpha=0.2, linewidth=0)
        ever = where(rows, problem=problem, what="ever above 1 / delta")
        crossing.plot(column(ever, "at"), column(ever, "value"), "o-", color=color, label=problem)
        (stopped,) = (row for row in where(rows, problem=problem) if "first" in row["what"])
        spans = [f"{float(stopped[name]):.3f}" for name in ("value", "low", "high")]
        shares = ", ".join(f"{row['at']}: {float(row['value']):.3f}" for row in ever)
        lines.append([problem, f"{spans[0]} ({spans[1]} to {spans[2]})", f"{np.max(values):.3f}", shares])
    expectation.axhline(1, color="0.4", linestyle=":", label="at most")
    deltas = np.array([0.01, 0.5])
    crossing.plot(deltas, deltas, color="0.4", linestyle=":", label="at most")
    finish(expectation, "Lemma 3, fixed alpha", "episodes, t", "E M_t(alpha)")
    finish(crossing, f"Lemma 4, {episodes(page, 'lemmas')} episodes", "delta", "runs ever above 1 / delta")
    page.cells(lines)
    page.figure("lemmas.png", figure)


SECTIONS: Sections = {
    "Boldness": (boldness, ("boldness",)),
    "Rivals": (rivals, ("rivals",)),
    "Bayesian regret": (bayesian_regret, ("bayesian-regret",)),
    "Optimism": (optimism, ("optimism",)),
    "Lemmas": (lemmas, ("lemmas",)),
}

write_page(__file__, "Exploration of the linear algorithms", "Bayesian regret and the lemmas", SECTIONS)
