"""Guard against slowdowns, in under three minutes: ratios only, each with a bound.

    make bench-quick

The bounds leave room for a noisy machine; `make bench` has the figures.
"""

from __future__ import annotations

import sys
import time

import loop
import refit
import training
from measure import Spread, ratio
from work import OURS, REFERENCE, Work

PONG, CARTPOLE = Work("ALE/Pong-v5", features=512), Work("CartPole-v1")


def beside_sb3(work: Work) -> Spread:
    measured = training.rates(work, 5, training.two_contestants)
    return ratio(measured[OURS], measured[REFERENCE])


def beside_parts(work: Work) -> Spread:
    measured = loop.times(work, 5)
    return ratio(measured["loop"], measured["parts"])


def refit_beside_passes() -> Spread:
    times = refit.floor(3_000, 3)
    return ratio(times["refit"], times["forward"])


def main() -> int:
    began = time.perf_counter()
    guards = [
        ("CartPole training, times Stable-Baselines3", lambda: beside_sb3(CARTPOLE), 1.5, float("inf")),
        ("Pong training, times Stable-Baselines3", lambda: beside_sb3(PONG), 1.0, float("inf")),
        ("CartPole loop over its bare parts", lambda: beside_parts(CARTPOLE), 0.0, 2.2),
        ("Pong loop over its bare parts", lambda: beside_parts(PONG), 0.0, 1.5),
        ("refit of 3,000 Atari transitions over its forward passes", refit_beside_passes, 0.0, 1.8),
    ]
    failed = False
    for name, measure, least, most in guards:
        found = measure()
        kept = least <= found.median <= most
        failed |= not kept
        bound = f"at least {least}" if least else f"at most {most}"
        print(f"{'ok  ' if kept else 'SLOW'} {name}: {found}, {bound}", flush=True)
    print(f"({time.perf_counter() - began:.0f} s)")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
