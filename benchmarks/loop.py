"""Compare the training loop with its lower limit: the bare update, forward pass and environment step."""

from __future__ import annotations

from collections.abc import Callable

import torch

import ours
from bdqn.envs import family
from measure import interleaved, ratio, write_rows
from training import THREADS, TURN, WORKS
from work import Work


def times(work: Work, rounds: int) -> dict[str, list[float]]:
    """Seconds per decision in each round: of the loop, of each part, and of all parts together."""
    torch.set_num_threads(THREADS[family(work.env_id)])
    trained = ours.learner(work, "ddqn")
    trained.learn(work.learning_starts + 64)
    # The parts step their own environments and do not disturb the loop's.
    parts = ours.bare_parts(ours.learner(work, "ddqn").learn(64), work)
    decisions = TURN[family(work.env_id)]
    jobs: dict[str, Callable[[], object]] = {"loop": lambda: trained.learn(decisions)}

    def repeat(job: Callable[[], object], count: int) -> Callable[[], object]:
        return lambda: [job() for _ in range(count)]

    for name, (job, share) in parts.items():
        jobs[name] = repeat(job, round(decisions * share))
    jobs["in turn"] = repeat(lambda: _one_cycle(parts, work), decisions // work.cycle)
    measured = {name: [s / decisions for s in values] for name, values in interleaved(jobs, rounds).items()}
    measured["parts"] = [sum(values) for values in zip(*(measured[name] for name in parts), strict=True)]
    return measured


def _one_cycle(parts: dict[str, tuple[Callable[[], object], float]], work: Work) -> None:
    """The bare parts in the order of a loop, so that they share the caches."""
    for _ in range(work.cycle // work.num_envs):
        parts["acting forward"][0]()
        parts["environments"][0]()
    for _ in range(work.updates_per_cycle):
        parts["update"][0]()


def run(rounds: int) -> None:
    rows = []
    for work in WORKS:
        measured = times(work, rounds)
        shown = ratio(measured["loop"], measured["parts"])
        print(f"{work.env_id}, {work.num_envs} environment(s): {shown} x its bare parts", flush=True)
        rows += [
            {"env": work.env_id, "num_envs": work.num_envs, "part": name, "round": i, "microseconds": f"{1e6 * v:.1f}"}
            for name, values in measured.items()
            for i, v in enumerate(values)
        ]
    write_rows("loop", rows)
