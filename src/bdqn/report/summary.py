"""The sections of every report: learning curves, scores, settings, posterior diagnostics and provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from bdqn.qlearning.calibration import Coverage
from bdqn.report import stats
from bdqn.report.charts import Series, line_chart
from bdqn.report.compare import Comparison, caution
from bdqn.report.grid import DASH, MISSING, Cell, Column, Grid, grid
from bdqn.report.html import Html, tag
from bdqn.report.load import WINDOW, Array
from bdqn.report.runs import RunRecord, Runs
from bdqn.report.tables import pair_table

T = TypeVar("T")

SCORES = {"final": f"last {WINDOW} episodes", "area": "mean over training", "evaluation": "greedy evaluation"}
DRAWS = "posterior/draw_differs"  # agents without draws log 0, because they follow the mean
# Metric, title, whether its axis is logarithmic, and its value for a calibrated Gaussian.
DIAGNOSTICS = (
    ("posterior/std_mean", "Spread of Q", False, None),
    ("posterior/action_gap", "Gap between the best two actions", False, None),
    (DRAWS, "Share of draws with another action than the mean", False, None),
    ("explore/draw_departs", "Share of states where the acting draw departs from the mean", False, None),
    ("explore/bold_share", "Share of environments where a bold draw acts", False, None),
    ("posterior/novelty", "Novelty of recent observations", False, None),
    ("posterior/within_1_std", "Calibration: unseen targets within 1 predictive std", False, 0.68),
    ("posterior/within_2_std", "Calibration: unseen targets within 2 predictive std", False, 0.95),
    ("posterior/condition_number", "Condition number of the precision", True, None),
    ("posterior/samples_per_action", "Transitions of the rarest action", False, None),
    ("posterior/noise_var", "Noise variance", False, None),
)
DIGITS = 4  # of a score
SHORT = 6  # rows of a table that starts unfolded


def section(title: str, *body: str, lead: str = "") -> Html:
    """A section of the page with a link target."""
    parts = [tag("h2", title), *([tag("p", lead, class_="lead")] if lead else []), *body]
    return tag("section", *parts, id="-".join(title.lower().split()))


def charts(parts: Sequence[Html]) -> Html:
    return tag("div", *parts, class_="charts")


def colour_of(runs: Runs, group: str) -> int:
    """A group's colour index, the same on the whole page."""
    return runs.groups.index(group)


def show(value: float) -> str:
    """Format a score."""
    if np.isnan(value):
        return "-"
    rounded = f"{value:.{DIGITS - 1}g}"  # round before comparing: 999.7 is 1,000
    return f"{value:,.0f}" if abs(float(rounded)) >= 10 ** (DIGITS - 1) else rounded if value else "0"


def band(name: str, colour: int, x: Array, curves: Array, rng: np.random.Generator) -> Series:
    """Mean over seeds with a 95 % bootstrap interval; a single seed has no interval."""
    known = np.isfinite(curves).all(0)
    x, curves = x[known], curves[:, known]
    label = f"{name} ({len(curves)} seed{'s' * (len(curves) > 1)})"
    if len(curves) == 1 or not known.any():
        return Series(label, colour, x, curves.mean(0))
    low, high = stats.bootstrap(lambda s: s["curves"].mean(-2), {"curves": curves}, rng, samples=1_000)
    return Series(label, colour, x, curves.mean(0), np.asarray(low), np.asarray(high))


def curve_series(runs: Runs, env: str, groups: Sequence[str], rng: np.random.Generator) -> list[Series]:
    """Learning curves of groups on an environment."""
    found = ((group, runs.of(group, env)) for group in groups)
    return [
        band(group, colour_of(runs, group), mine[0].step, np.array([record.curve for record in mine]), rng)
        for group, mine in found
        if mine
    ]


def learning_curves(runs: Runs, rng: np.random.Generator) -> Html:
    drawn = [
        line_chart(f"curve-{i}", env, curve_series(runs, env, runs.groups, rng), "return")
        for i, env in enumerate(runs.envs)
    ]
    return section(
        "Learning curves",
        charts(drawn),
        lead=f"Mean return of the last {WINDOW} training episodes, or of all episodes if fewer have ended. "
        f"Bands: 95 % bootstrap intervals over seeds. {caution(runs.records)}".strip(),
    )


# --- scores and settings ------------------------------------------------------------------------------------------


def interval(values: Sequence[float], rng: np.random.Generator, note: str = "", *more: float) -> Cell:
    """Mean over seeds, with its interval if there are several seeds, and with a note.

    ``more`` is the note in numbers, for files.
    """
    known = np.array(values)
    if not np.isfinite(known).all():
        return Cell(DASH)
    mean, low, high = float(known.mean()), np.nan, np.nan
    details = [note] if note else []
    if len(known) > 1:
        low, high = map(float, stats.bootstrap(stats.mean, {"all": known}, rng))
        details.insert(0, f"{show(low)} to {show(high)}")
    return Cell(show(mean) + (f" ({'; '.join(details)})" if details else ""), mean, low, high, *more)


def score_grid(runs: Runs, rng: np.random.Generator) -> Grid:
    """Scores of every group on its planned environments, with evaluations at other epsilons if there are any."""
    epsilons = sorted({found.epsilon for record in runs.records for found in record.evaluated})
    planned = Counter((env, group) for env, group, _ in runs.planned)
    envs, groups = (list(dict.fromkeys(names)) for names in zip(*planned, strict=True))
    heading = [
        "environment",
        "group",
        Column("seeds", ("seeds", "seeds_planned")),
        Column("scored at", ("scored_at", "decisions_low", "decisions_high")),
        Column.estimate(SCORES["final"], "final", "episodes"),
        *(Column.estimate(title, kind) for kind, title in SCORES.items() if kind != "final"),
        *(Column.estimate(f"at epsilon {e:g}", f"epsilon_{e:g}") for e in epsilons),
    ]
    rows = []
    for env, group in ((env, group) for env in envs for group in groups if (env, group) in planned):
        mine, several = runs.of(group, env), planned[env, group]
        text = str(several) if len(mine) == several else f"{len(mine)} of {several}"
        identity = [env, group, Cell(text, len(mine), several)]
        missing = [MISSING] * (len(heading) - len(identity))
        rows.append([*identity, *(_scores(mine, epsilons, rng) if mine else missing)])
    note = (
        "Mean over seeds (95 % bootstrap interval). Scored at: the decisions that the scores refer to, and the "
        f"decisions taken if they differ. A dash: unknown for at least one seed. {caution(runs.records)}"
    )
    return replace(grid("scores", "Scores", heading, rows, note.strip()), stacks=True)


def _scores(mine: Sequence[RunRecord], epsilons: Sequence[float], rng: np.random.Generator) -> list[Cell]:
    """The cells of a group with runs."""
    final = interval([r.final for r in mine], rng, fewer_episodes(mine), min(_ended(mine), default=np.nan))
    others = (interval([getattr(r, kind) for r in mine], rng) for kind in SCORES if kind != "final")
    return [_scored_at(mine), final, *others, *(interval([r.evaluated_at(e) for r in mine], rng) for e in epsilons)]


def _scored_at(mine: Sequence[RunRecord]) -> Cell:
    ends, taken = [r.end for r in mine], [r.decisions for r in mine]
    further = any(f"{r.decisions:g}" != f"{r.end:g}" for r in mine)  # in six digits, as ends are stored
    text = f"{_span(ends)} ({_span(taken)} taken)" if further else _span(ends)
    return Cell(text, min(ends), min(taken), max(taken))


def fewer_episodes(mine: Sequence[RunRecord]) -> str:
    """The number of episodes in a final score, if it is known and below the usual window."""
    ended = _ended(mine)
    return f"{_span(ended)} episode{'s' * (max(ended) > 1)}" if ended and min(ended) < WINDOW else ""


def _ended(mine: Sequence[RunRecord]) -> list[int]:
    """The episodes in final scores; empty for stored results, which contain only scores."""
    return [min(WINDOW, int(np.searchsorted(r.episodes[0], r.end, side="right"))) for r in mine if not r.kept]


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def pair_grids(runs: Runs, baseline: str, rng: np.random.Generator) -> list[Grid]:
    """At most one table: groups compared with the baseline, paired by seed, if scores cover the same decisions."""
    ends = {env: {f"{r.end:g}" for r in runs.records if r.env == env} for env in runs.envs}  # in six digits, as stored
    comparison = Comparison(tuple(r for r in runs.records if len(ends[r.env]) == 1), ())
    made = pair_table(comparison, baseline, rng)
    return [made.grid(*comparison.unpaired(baseline), caution(comparison.results))] if made.rows else []


def folded(table: Grid) -> Html:
    """A table that starts folded unless it is short."""
    return tag("details", tag("summary", table.title), table.html(), open=len(table.rows) <= SHORT)


def settings_grid(runs: Runs) -> Grid:
    """Settings side by side. Those that differ between groups, or within one, come first and are marked."""
    names = dict.fromkeys(name for record in runs.records for name in record.settings)
    values = {name: [_values(runs, group, name) for group in runs.groups] for name in names}
    rows = [(name, *(_shown(by_env) for by_env in columns)) for name, columns in values.items()]
    torn = {name for name, columns in values.items() if any(len(found) > 1 for by_env in columns for found in by_env)}
    differing = [row for row in rows if row[0] in torn or len({*row[1:]} - {"-"}) > 1]
    own = [row for row in rows if row not in differing and "-" in row[1:]]
    alike = [row for row in rows if row not in differing and row not in own]
    note = (
        f"First the {len(differing)} that differ, then the {len(own)} that only some agents have, then the "
        f"{len(alike)} that are equal. Several values: by environment or by run."
    )
    table = grid("settings", "Settings side by side", ["setting", *runs.groups], [*differing, *own, *alike], note)
    first, second = len(differing), len(differing) + len(own)
    return replace(table, marked=frozenset(range(first)), faint=frozenset(range(first, second)))


def settings_html(table: Grid) -> list[Html]:
    """The settings that differ, and the others folded: fifty equal rows would bury what comes after them."""
    rest = [i for i in range(len(table.rows)) if i not in table.marked]
    differing = table.part(sorted(table.marked), "settings", "Settings that differ")
    others = table.part(rest, "settings-others", "Other settings", table.note)
    summary = f"{len(rest)} other settings: those that only some agents have, and those that are equal"
    shown = [differing.html()] if table.marked else [tag("p", "No setting differs.")]
    return [*shown, tag("details", tag("summary", summary), others.html())] if rest else shown


def _values(runs: Runs, group: str, name: str) -> list[list[str]]:
    """A group's values of a setting on each environment; several if its runs differ."""
    settings = [[record.settings for record in runs.of(group, env)] for env in runs.envs]
    known = (mine for mine in settings if any(name in one for one in mine))
    return [list(dict.fromkeys(_plain(one.get(name, "-")) for one in mine)) for mine in known]


def _shown(by_env: Sequence[Sequence[str]]) -> str:
    return " / ".join(dict.fromkeys(value for values in by_env for value in values)) or "-"


def _plain(value: object) -> str:
    """A setting's value as text; numbers keep all digits that they need."""
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def not_in_files(runs: Runs) -> str:
    """A sentence on the groups with stored results only; empty if there are none."""
    kept = list(dict.fromkeys(record.group for record in runs.records if record.kept))
    return f"Unknown for {', '.join(kept)}: only their scores and learning curves were stored." if kept else ""


# --- posteriors ---------------------------------------------------------------------------------------------------


def diagnostics(runs: Runs, rng: np.random.Generator) -> Html | None:
    """Diagnostics of all posteriors; None if no agent has one."""
    having = [r for r in runs.records if any(name in r.metrics for name, *_ in DIAGNOSTICS)]
    if not having:
        return None
    parts = []
    for i, env in enumerate(dict.fromkeys(record.env for record in having)):
        groups = list(dict.fromkeys(record.group for record in having if record.env == env))
        drawn = [
            line_chart(f"posterior-{i}-{j}", title, _metric(runs, env, groups, name, rng), name, log=log, ideal=ideal)
            for j, (name, title, log, ideal) in enumerate(DIAGNOSTICS)
        ]
        parts.append(tag("details", tag("summary", env), charts(drawn), open=i == 0))
    return section(
        "Posterior diagnostics",
        *parts,
        lead="Is the posterior neither too wide nor too narrow? Its spread should be similar to the gap between "
        "actions: far above, the agent acts at random; far below, it is greedy. Values are in the learner's unit of "
        "reward. Calibration: before each refit, the share of targets of unseen transitions within 1 and 2 predictive "
        "standard deviations of the posterior mean. Dashed: a calibrated Gaussian. Above it, the posterior is wider "
        "than the scatter of the targets; below it, the posterior is too certain, or values are still changing.",
    )


def _metric(runs: Runs, env: str, groups: Sequence[str], name: str, rng: np.random.Generator) -> list[Series]:
    found = []
    for group in groups:
        logged = [_logged(record, name) for record in runs.of(group, env)]
        known = [(step, values) for step, values in logged if len(step)]
        if known:
            at = _common_steps([step for step, _ in known])
            curves = [values[np.searchsorted(step, at, side="right") - 1] for step, values in known]
            found.append(band(group, colour_of(runs, group), at, np.array(curves), rng))
    return found


def _logged(record: RunRecord, name: str) -> tuple[Array, Array]:
    """Steps and values of a logged metric; empty for a metric of draws if the run makes none."""
    if name not in record.metrics or (name == DRAWS and record.settings.get("acting") != "thompson"):
        return np.zeros(0), np.zeros(0)
    step, values = record.metrics["step"], record.metrics[name]
    known = np.isfinite(values)
    return step[known], values[known]


def _common_steps(steps: Sequence[Array]) -> Array:
    """Decisions that all runs cover: the rows of the run with the fewest between the last start and the first end."""
    first, last = max(step[0] for step in steps), min(step[-1] for step in steps)
    within = (step[(first <= step) & (step <= last)] for step in steps)
    return min(filter(len, within), key=len, default=np.zeros(0))


# --- how sure -----------------------------------------------------------------------------------------------------


def coverage_grid(runs: Runs) -> Grid | None:
    """What share of returns intervals hold, by kept evaluations; None if those say nothing of it."""
    pairs = list(dict.fromkeys((r.env, r.group) for r in runs.records))
    rows = []
    for env, group in pairs:
        evaluated = [e for r in runs.of(group, env) for e in r.evaluated]
        own = [e.coverage for e in evaluated if e.coverage is not None]
        calibrated = [e.calibrated for e in evaluated if e.calibrated is not None]
        if own:
            rows.append([env, group, str(len(own)), _pooled(own), _pooled(calibrated)])
    heading = [
        "environment",
        "group",
        "seeds",
        Column("mean and std of Q", ("held",)),
        Column("calibrated intervals", ("calibrated_held",)),
    ]
    note = (
        "Share of returns in evaluations that bdqn evaluate --keep stored; every episode counts once. The std of Q is "
        "that of the regression's mean. Intervals of returns: bdqn evaluate RUN --calibrate --keep."
    )
    return grid("how-sure", "How sure, truthfully", heading, rows, note) if rows else None


def _pooled(found: Sequence[Coverage]) -> Cell:
    """All episodes of several runs together, which have as many each."""
    known = [one for one in found if one.episodes]
    if not known:
        return Cell(DASH)
    episodes = sum(one.episodes for one in known)
    held = sum(one.held * one.episodes for one in known) / episodes
    return Cell(str(Coverage(known[0].level, held, episodes)), held)


# --- provenance ---------------------------------------------------------------------------------------------------


def provenance_grids(runs: Runs) -> list[Grid]:
    """A table of facts that all runs share, then one of the facts that differ."""
    facts = [_facts(record) for record in runs.records]
    names = list(dict.fromkeys(name for fact in facts for name in fact))
    shared = [name for name in names if len({fact.get(name, "-") for fact in facts}) == 1]
    own = [name for name in names if name not in shared]
    identity = ["run", "group", "environment", "seed"]
    rows = [
        [record.path.name, record.group, record.env, str(record.seed), *(fact.get(name, "-") for name in own)]
        for record, fact in zip(runs.records, facts, strict=True)
    ]
    return [
        grid(
            "provenance-shared",
            "Shared by all runs",
            ["fact", "value"],
            [[name, facts[0].get(name, "-")] for name in shared],
        ),
        replace(grid("provenance", "Every run", [*identity, *own], rows), stacks=True),
    ]


def _facts(record: RunRecord) -> dict[str, str]:
    meta = record.meta
    machine, versions = (_entry(meta, name, dict) for name in ("machine", "versions"))
    return {
        "status": str(meta.get("status", "unknown")),
        "decisions": _count(record.decisions),
        "planned": _count(int(record.config["steps"])),
        "preset": str(record.config.get("preset", "-")),
        "protocol": str(meta.get("protocol", "-")),
        "commit": str(meta.get("git_commit") or "-"),
        **{f"{name} version": str(version) for name, version in versions.items() if version},
        "machine": ", ".join(f"{name} {value}" for name, value in machine.items() if value) or "-",
        "device": str(meta.get("device", record.config.get("device", "-"))),
        "threads": str(record.config.get("threads", "-")),
        "started": str(meta.get("started", "-"))[:19],
        "resumed": _count(len(_entry(meta, "resumed", list))),
        "command": record.command or "-",
    }


def _count(number: int) -> Cell:
    return Cell(f"{number:,}", number)


def _entry(meta: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """An entry of a run's meta.json; an empty one if there is none of this type."""
    found = meta.get(name)
    return found if isinstance(found, kind) else kind()
