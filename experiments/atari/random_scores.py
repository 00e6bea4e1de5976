"""Measure what random actions score on the paper's 15 games: python experiments/atari/random_scores.py

Thirty episodes of agent `random` under protocol `dqn`, as in training. Adds to results/random.csv, or to the file that
``--out`` names; games that are there already are not played again.
"""

from __future__ import annotations

import argparse
from itertools import chain, islice
from pathlib import Path

import bdqn
from bdqn.report.cells import write_table
from bdqn.report.collect import read_rows
from bdqn.sweep.plan import read_sweep

HERE = Path(__file__).parent
EPISODES = 30
COLUMNS = ("env", "episode", "score", "decisions")
FOR_EVER = 10**9


def play(env: str, episodes: int, seed: int = 0) -> list[tuple[object, ...]]:
    """A row for each episode."""
    settings = {"protocol": "dqn", "buffer_size": 1_000, "learning_starts": FOR_EVER}  # it neither learns nor remembers
    learner = bdqn.make("random", env, preset="paper", seed=seed, **settings)
    played = chain.from_iterable(step.episodes for step in learner.steps(FOR_EVER))
    return [(env, number, f"{one.raw_return:g}", one.length) for number, one in enumerate(islice(played, episodes))]


def main() -> None:
    """Play the games that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "random.csv", help="[%(default)s]")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="of each game [%(default)s]")
    args = parser.parse_args()
    rows = [tuple(row.values()) for row in read_rows(args.out)]
    for env in dict.fromkeys(trial.env for trial in read_sweep(HERE / "sweep.toml").trials):
        if env not in {row[0] for row in rows}:
            rows += play(env, args.episodes)
            write_table(args.out, [COLUMNS, *rows])
            print(f"{env}: {sum(int(row[3]) for row in rows if row[0] == env):,} decisions")


if __name__ == "__main__":
    main()
