"""DeepSea: who solves it, after how many episodes, and how that grows with its size.

Reads solved.csv, which collect.py writes: python experiments/deep_sea/analysis.py
"""

from __future__ import annotations

from bdqn.envs import make_env
from bdqn.report.collect import read_rows
from bdqn.report.experiment import Page
from bdqn.report.growth import growth_figure, solved_by_size
from bdqn.sweep.plan import read_sweep

FILES = (
    *("size10.toml", "size14.toml", "sweep.toml", "size30.toml", "size40.toml", "size50.toml", "bsuite.toml"),
    *("default10.toml", "default20.toml", "default30.toml", "default40.toml", "default50.toml"),
)
STOCHASTIC = "stochastic.toml"
LEVEL = 0.9  # of the interval of the growth
Rows = list[dict[str, str]]


def by_seed(rows: Rows, column: str) -> str:
    """One figure per seed; a dash where it never happened."""
    return ", ".join(row[column] or "-" for row in rows)


def is_solved(row: dict[str, str]) -> bool:
    """By bsuite's criterion, and kept: the treasure in at least 90 of the last 100 episodes."""
    return bool(row["solved"]) and float(row["last_100"]) >= 0.9


def read_runs(page: Page) -> dict[tuple[str, str], Rows]:
    """Every kept run, by environment and group."""
    runs: dict[tuple[str, str], Rows] = {}
    for row in read_rows(page.results / "solved.csv"):
        runs.setdefault((row["env"], row["group"]), []).append(row)
    return {key: sorted(rows, key=lambda row: int(row["seed"])) for key, rows in runs.items()}


def say_tables(page: Page, name: str, runs: dict[tuple[str, str], Rows]) -> None:
    """A table for each environment of a sweep file; what of it is missing is named."""
    sweep = read_sweep(page.folder / name, page.scale)
    seeds = len({trial.seed for trial in sweep.trials})
    for env in dict.fromkeys(trial.env for trial in sweep.trials):
        groups = list(dict.fromkeys(trial.group for trial in sweep.trials if trial.env == env))
        page.say(f"## {env}, {sweep.steps:,} decisions ({name})")
        lines = [["agent", "solved and kept", "solved at episode", "first treasure", "treasure in the last 100"]]
        for group in groups:
            found = runs.get((env, group), [])
            kept = f"{sum(map(is_solved, found))} of {len(found)}" if found else "missing"
            lines.append([group, kept, *(by_seed(found, column) for column in ("solved", "first", "last_100"))])
        page.cells(lines)
        there = {group: len(runs.get((env, group), [])) for group in groups}
        page.points([f"{group} has {count} of {seeds} seeds." for group, count in there.items() if count < seeds])


def say_growth(page: Page, runs: dict[tuple[str, str], Rows]) -> None:
    """Episodes to solve against N, for every group that bsuite calls solved on all runs, beside published lines."""
    solved = solved_by_size((*key, row["solved"]) for key, rows in runs.items() for row in rows)
    if solved:
        page.say("## How it grows")
        figure, sentences = growth_figure(solved, page.rng, LEVEL)
        page.points(sentences)
        page.figure("growth.png", figure)


def say_stochastic(page: Page) -> None:
    """There no single episode tells whether the treasure was found, for rewards are noisy: returns do, on average."""
    page.say(f"## The stochastic variant ({STOCHASTIC})")
    study = page.read(STOCHASTIC)
    (env,) = {trial.env for trial in study.sweep.trials}
    best = make_env(env).unwrapped.optimal_return  # type: ignore[attr-defined]
    page.say(f"To go right throughout returns {best:.3f} on average; never to find out, 0.")
    page.compare(study.found, "bdqn-deep")
    page.curves("stochastic.png", study.found)


def main() -> None:
    page = Page(__file__)
    page.say("# DeepSea: episodes to solve")
    runs = read_runs(page)
    for name in FILES:
        say_tables(page, name, runs)
    say_growth(page, runs)
    say_stochastic(page)
    page.write()


main()
