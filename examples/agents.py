"""Train small agents and push each to releases/0.1, with its model card.

A finished run is kept in the directory of --out, so that a second call trains only what is missing.

    python examples/agents.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bdqn.cli import main as bdqn

ROOT = Path(__file__).parents[1]
# What each is trained with. Few features keep the files small.
AGENTS = {
    "cartpole": "--env CartPole-v1 --agent bdqn --features 64 --steps 25_000",
    "deep-sea-10": "--env bdqn/DeepSea10-v0 --agent bdqn-explore --features 32 --steps 8_000",
    "minatar-breakout": "--env MinAtar/Breakout-v1 --agent bdqn --features 64 --steps 60_000",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "agents", help="directory of the runs")
    parser.add_argument("--releases", type=Path, default=ROOT / "releases" / "0.1", help="directory of the agents")
    args = parser.parse_args()
    for name, flags in AGENTS.items():
        run = str(args.out / name)
        command("train", *flags.split(), "--threads", "1", "--out", run, "--continue", "--quiet")
        command("evaluate", run, "--episodes", "20", "--calibrate", "--calibration-episodes", "40", "--keep")
        command("push", run, str(args.releases / name), "--replace")


def command(*words: str) -> None:
    """Run a command of bdqn. If it fails, end with its exit code."""
    if code := bdqn(words):
        raise SystemExit(code)


if __name__ == "__main__":
    main()
