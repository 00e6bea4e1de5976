"""Do two parallel single-threaded trainings do twice the work of one? MinAtar, interleaved.

.venv/bin/python benchmarks/workers.py
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from measure import Spread, write_rows

PROGRAM = """
import sys, time, torch, bdqn
torch.set_num_threads(1)
learner = bdqn.make("ddqn", "MinAtar/Breakout-v1", learning_starts=500, buffer_size=20_000)
learner.learn(700)
print("ready", flush=True)
for line in sys.stdin:
    end, before = time.monotonic() + float(line), learner.num_timesteps
    while time.monotonic() < end:
        learner.learn(40)
    print(learner.num_timesteps - before, flush=True)
"""


def worker() -> subprocess.Popen[str]:
    limits = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **limits},
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def decisions(workers: list[subprocess.Popen[str]], seconds: float) -> int:
    """Decisions that these workers take together in so many seconds."""
    for one in workers:
        assert one.stdin is not None
        one.stdin.write(f"{seconds}\n")
        one.stdin.flush()
    return sum(int(one.stdout.readline()) for one in workers if one.stdout is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each turn")
    options = parser.parse_args()
    both = [worker(), worker()]
    rows = []
    for i in range(options.rounds):
        one, two = decisions(both[i % 2 :][:1], options.seconds), decisions(both, options.seconds)
        rows.append({"round": i, "one": one, "two": two, "ratio": f"{two / one:.3f}"})
        time.sleep(0.2)
    for process in both:
        process.kill()
    write_rows("workers", rows)
    print(f"two workers take {Spread.of([float(row['ratio']) for row in rows])} times the decisions of one")


if __name__ == "__main__":
    main()
