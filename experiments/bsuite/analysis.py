"""bsuite's scores of every agent, its radar, and what of its experiments was run.

Reads logs.csv, which collect.py writes: python experiments/bsuite/analysis.py
"""

from __future__ import annotations

from itertools import chain

import numpy as np
import pandas as pd
from logs import EPISODES, FEWEST_EPISODES, Scores, episodes_of, read_logs, scores_of, too_short
from matplotlib.figure import Figure

from bdqn.report.experiment import Page
from bdqn.report.figures import COLORS
from bdqn.sweep.plan import Trial, read_sweep

FILES = ("sweep.toml", "control.toml")
DEFAULT, DQN, BOOTSTRAPPED = "bdqn-explore", "ddqn", "bootstrapped-prior"
TAGS = ("basic", "noise", "scale", "exploration", "credit_assignment", "memory", "generalization")
MARGIN = 0.05  # by which no score of the default may lie below Double DQN's
SHOWN_AT_LEAST = 0.05  # in the figure: as in bsuite's, a radar does not collapse to its centre


def of_trial(trial: Trial) -> tuple[str, str]:
    """A trial's experiment and bsuite's id."""
    experiment, _, setting = trial.env.removeprefix("bsuite/").removesuffix("-v0").rpartition("-")
    return experiment, f"{experiment}/{setting}"


def share(done: pd.DataFrame) -> float:
    """How much of their episodes these runs have had."""
    return float((done["episode"] / done["bsuite_env"].map(EPISODES)).clip(upper=1).sum())


def say_coverage(page: Page, trials: list[Trial], done: pd.DataFrame) -> None:
    """Cell by cell: how many settings were run, and how far."""
    planned = pd.DataFrame([(t.group, *of_trial(t)) for t in trials], columns=["agent", "bsuite_env", "bsuite_id"])
    agents = list(dict.fromkeys([*planned["agent"], *done["agent"]]))
    page.say("## What was run")
    page.say(
        "Settings with a run, of those that the scale has; and how many of bsuite's episodes these runs have had, on\n"
        "average. bsuite scores a run that is not finished by the episodes that it has."
    )
    lines = [["experiment", "settings", "episodes", *agents]]
    for experiment, asked in planned.groupby("bsuite_env", sort=False):
        wanted = set(asked["bsuite_id"])
        cells = []
        for agent in agents:
            own = done[(done["agent"] == agent) & done["bsuite_id"].isin(wanted)]
            cells.append(f"{len(own)}, {share(own) / len(own):.0%}" if len(own) else "-")
        lines.append([str(experiment), str(len(wanted)), f"{EPISODES[experiment]:,}", *cells])
    page.cells(lines)
    page.points([remark for agent in agents if (remark := missing(agent, planned, done))])


def missing(agent: str, planned: pd.DataFrame, done: pd.DataFrame) -> str:
    """What it would take to run the rest of an agent's settings."""
    asked = planned[planned["agent"] == agent]
    own = done[(done["agent"] == agent) & done["bsuite_id"].isin(asked["bsuite_id"])]
    # Episodes differ in length: those to come are taken to be as long as those before, on average.
    left = (own["bsuite_env"].map(EPISODES) - own["episode"]).clip(lower=0)
    decisions = (left * own["steps"] / own["episode"]).sum()
    finished = int((left == 0).sum())
    if finished == len(asked):
        return ""
    lack = f" The unfinished ones lack about {decisions / 1e6:.1f} million decisions." if decisions else ""
    return (
        f"{agent}: {finished} of {len(asked)} settings have all of bsuite's episodes, {len(asked) - len(own)} were not "
        f"run.{lack}"
    )


def say_scores(page: Page, by_agent: dict[str, pd.DataFrame]) -> None:
    found = {agent: scores_of(own) for agent, own in by_agent.items()}
    scores, tags = ({agent: pair[which] for agent, pair in found.items()} for which in (0, 1))

    def cells(found: dict[str, Scores], name: str) -> list[str]:
        return [f"{known[name]:.2f}" if name in known else "-" for known in found.values()]

    page.say("## Scores by tag")
    page.say("Means over the experiments with that tag, as in bsuite's radar. 0 is a random policy, 1 is good.")
    page.cells([["tag", *tags], *([tag.replace("_", " "), *cells(tags, tag)] for tag in TAGS)])
    page.figure("radar.png", radar(tags))
    page.points(verdicts(tags, {agent: set(own["bsuite_id"]) for agent, own in by_agent.items()}))
    page.say("## Scores by experiment")
    known = set(chain.from_iterable(scores.values()))
    page.cells([["experiment", *scores], *([name, *cells(scores, name)] for name in EPISODES if name in known)])


def verdicts(tags: dict[str, Scores], runs: dict[str, set[str]]) -> list[str]:
    """Whether the default explores better than bootstrapped DQN, and where it is worse than Double DQN.

    Nothing is concluded of agents that were run on other settings.
    """
    own, points = tags.get(DEFAULT, {}), []
    for rival in (BOOTSTRAPPED, DQN):
        if runs.get(rival) != runs.get(DEFAULT):
            points.append(f"{DEFAULT} and {rival} were not run on the same settings: their scores are not compared.")
            tags = {agent: known for agent, known in tags.items() if agent != rival}
    if "exploration" in own and "exploration" in tags.get(BOOTSTRAPPED, {}):
        ours, theirs = own["exploration"], tags[BOOTSTRAPPED]["exploration"]
        where = "above" if ours > theirs else "not above"
        points.append(f"Exploration: {DEFAULT} {ours:.2f}, {where} {BOOTSTRAPPED}'s {theirs:.2f}.")
    rest = [tag for tag in TAGS if tag != "exploration" and tag in own and tag in tags.get(DQN, {})]
    if rest:
        worse = [
            f"{tag.replace('_', ' ')} ({own[tag]:.2f} against {tags[DQN][tag]:.2f})"
            for tag in rest
            if own[tag] < tags[DQN][tag] - MARGIN
        ]
        points.append(f"Other scores of {DEFAULT} more than {MARGIN} below {DQN}'s: {', '.join(worse) or 'none'}.")
    return points


def radar(tags: dict[str, Scores]) -> Figure:
    """A corner for each tag."""
    angles = np.linspace(0, 2 * np.pi, len(TAGS), endpoint=False)
    figure = Figure(figsize=(7, 5.6), layout="constrained")
    axes = figure.add_subplot(projection="polar")
    for color, (agent, known) in zip(COLORS, tags.items(), strict=False):
        values = [max(known.get(tag, 0.0), SHOWN_AT_LEAST) for tag in TAGS]
        axes.plot([*angles, angles[0]], [*values, values[0]], color=color, label=agent, linewidth=2)
        axes.fill(angles, values, color=color, alpha=0.08)
    axes.set_xticks(angles, [tag.replace("_", " ") for tag in TAGS])
    axes.tick_params("x", pad=16)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0])
    axes.set_ylim(0, 1)
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def main() -> None:
    page = Page(__file__, made_by="collect.py --out")
    logs = read_logs(page.results / "logs.csv")
    trials = [trial for name in FILES for trial in read_sweep(page.folder / name, page.scale).trials]
    asked = {of_trial(trial)[1] for trial in trials}
    page.say("# bsuite")
    foreign = sorted(set(logs["bsuite_id"]) - asked)
    page.points([f"{name} is not part of this scale and is left out." for name in foreign])
    logs = logs[logs["bsuite_id"].isin(asked)]
    order = dict.fromkeys([*(trial.group for trial in trials), *sorted(set(logs["agent"]))])
    by_agent = {agent: own for agent in order if len(own := logs[logs["agent"] == agent])}
    page.points(
        [
            f"{agent} has no score of {name}: that takes {FEWEST_EPISODES[name]:,} episodes."
            for agent, own in by_agent.items()
            for name in too_short(own)
        ]
    )
    if by_agent:
        say_scores(page, by_agent)
    say_coverage(page, trials, episodes_of(logs))
    page.write()


if __name__ == "__main__":
    main()
