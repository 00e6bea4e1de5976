"""Run the agents that bsuite brings along (JAX) on a scale of the sweep files, with bsuite's own log:
python experiments/bsuite/baselines.py dqn --scale short --out out/bsuite-baselines

Needs bsuite[baselines-jax], in an environment of its own; not bdqn. A run that has come to its end is not run again.
"""

from __future__ import annotations

import argparse
import tomllib
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import bsuite
import numpy as np
from bsuite import sweep

HERE = Path(__file__).parent
DONE = "done.txt"  # bsuite's ids, each with the limit of decisions that it was run with


def run(agent_name: str, bsuite_id: str, limit: int, folder: Path) -> None:
    """All episodes of an experiment, up to a limit of decisions."""
    np.random.seed(0)  # noqa: NPY002, the one that bsuite's agents use
    env = bsuite.load_and_record(bsuite_id, str(folder), overwrite=True)
    module = import_module(f"bsuite.baselines.jax.{agent_name}")
    agent = module.default_agent(env.observation_spec(), env.action_spec())
    decisions = 0
    for _ in range(sweep.EPISODES[bsuite_id]):
        seen = env.reset()
        while not seen.last() and decisions < limit:
            action = agent.select_action(seen)
            after = env.step(action)
            agent.update(seen, action, after)
            seen, decisions = after, decisions + 1
        if decisions >= limit:
            break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agent", choices=["dqn", "boot_dqn", "actor_critic", "actor_critic_rnn"])
    parser.add_argument("--scale", default="short", help="of the sweep files [%(default)s]")
    parser.add_argument("--out", type=Path, required=True, help="a directory, with one of logs for each agent")
    args = parser.parse_args()
    folder = args.out / args.agent
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / DONE
    for name in ("sweep.toml", "control.toml"):
        scale = tomllib.loads((HERE / name).read_text())["scales"][args.scale]
        for env_id in scale["environments"]:
            experiment, _, setting = env_id.removeprefix("bsuite/").removesuffix("-v0").rpartition("-")
            bsuite_id = f"{experiment}/{setting}"
            mark = f"{bsuite_id} {scale['steps']}"
            with suppress(FileNotFoundError):
                if mark in done.read_text().splitlines():
                    continue
            run(args.agent, bsuite_id, scale["steps"], folder)
            with done.open("a") as file:
                file.write(f"{mark}\n")


if __name__ == "__main__":
    main()
