"""Count the forward and backward passes of 100,000 decisions, and compare them with the paper."""

from __future__ import annotations

from typing import Any

import ours
from bdqn.learner import Learner
from measure import write_rows
from work import Work

DECISIONS = 100_000  # as in the paper's comparison
COUNTED = 2_000  # counted decisions, scaled up to all


def counts(agent: str) -> dict[str, float]:
    """Observations that pass through a network in 100,000 decisions, by purpose, with one refit of B = 100,000."""
    work = Work("CartPole-v1")
    refits = {"posterior_batch_size": 1_000} if agent == "bdqn" else {}
    learner = ours.learner(work, agent, **refits)
    learner.learn(work.learning_starts + work.cycle)
    counted = {"acting forward": 0, "update forward": 0, "update backward": 0, "last layer": 0, "refit forward": 0}
    phase = "acting"
    _count_forward(learner, lambda rows: counted.__setitem__(f"{phase} forward", counted[f"{phase} forward"] + rows))
    update, refit = learner.agent.update, learner.agent.fit_last_layer

    def counting_update() -> None:
        nonlocal phase
        phase = "update"
        update()
        phase = "acting"
        counted["update backward"] += work.batch_size
        counted["last layer"] += 0 if agent == "bdqn" else work.batch_size

    def counting_refit(*arguments: Any) -> bool:
        nonlocal phase
        phase = "refit"
        done = refit(*arguments)
        phase = "acting"
        return done

    learner.agent.update = counting_update  # type: ignore[method-assign]
    learner.agent.fit_last_layer = counting_refit  # type: ignore[method-assign]
    learner.learn(COUNTED)
    totals = {name: value * DECISIONS / COUNTED for name, value in counted.items()}
    choices = learner.agent.choices
    if choices.fit:
        learner.agent.targets.sync()  # as just before a refit, whose interval is a multiple of the copies' interval
        counting_refit()
        rows = min(1_000, len(learner.agent.replay))
        totals["refit forward"] = counted["refit forward"] * DECISIONS / rows
        totals["last layer"] = DECISIONS
    return totals


def _count_forward(learner: Learner, add: Any) -> None:
    for network in (learner.agent.online, learner.agent.target):
        features = network.features

        def counting(obs: Any, features: Any = features) -> Any:
            add(len(obs))
            return features(obs)

        network.features = counting  # type: ignore[method-assign]


def run(rounds: int) -> None:
    """Counting needs no repetitions."""
    measured = {agent: counts(agent) for agent in ("dqn", "ddqn", "bdqn")}
    rows = [{"agent": agent, **{k: f"{v:.0f}" for k, v in values.items()}} for agent, values in measured.items()]
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    write_rows("accounting", rows)
