"""Makes tests/data/golden/format-N: a small run and an agent of each kind as this version of bdqn writes them, and
what they believe.

Later versions must read them. They are made once for each format, from the top of the repository, and are then kept:

    python -m tests.support.golden
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import torch

import bdqn
from bdqn.agents import AGENTS
from bdqn.cli import main
from bdqn.config.settings import settings_of
from bdqn.storage.migrations import FORMAT

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
STEPS = 400
SETTINGS = (
    *("--env", "CartPole-v1", "--agent", "bdqn", "--steps", str(STEPS), "--seed", "7", "--threads", "1", "--quiet"),
    *("--features", "8", "--buffer-size", "300", "--learning-starts", "100", "--batch-size", "16"),
    *("--posterior-update-interval", "150", "--posterior-batch-size", "100", "--target-update-interval", "90"),
    *("--log-freq", "100", "--save-freq", "100", "--keep", "2", "--eval-freq", "200", "--eval-episodes", "1"),
)
OBSERVATIONS = [[0.0, 0.0, 0.0, 0.0], [0.1, -0.5, 0.05, 0.8], [-1.0, 1.0, -0.1, -1.5]]


# Agents that are small on disk, after a few updates and refits.
SMALL = {"features": 8, "buffer_size": 300, "learning_starts": 100, "batch_size": 16}
SMALL_OWN = {"prior_features": 8, "posterior_batch_size": 100, "posterior_update_interval": 100, "refit_interval": 100}


def make_agents(folder: Path) -> None:
    """One saved agent of each kind, with the values that it gave."""
    values = {}
    for name, recipe in AGENTS.items():
        own = {key: value for key, value in SMALL_OWN.items() if key in settings_of(recipe.settings)}
        learner = bdqn.make(name, "CartPole-v1", seed=7, **SMALL, **own).learn(250)
        learner.save(folder / name)
        values[name] = learner.q_values(OBSERVATIONS).tolist()
    (folder / "q_values.json").write_text(json.dumps(values, indent=1) + "\n")


def make_run(golden: Path) -> None:
    os.chdir(golden)  # what is recorded names no other place
    assert main(["train", *SETTINGS, "--out", "run"]) == 0
    for name in ("meta.json", "lock"):  # of this machine and moment alone
        Path("run", name).unlink()
    learner = bdqn.load("run")
    belief = learner.q_posterior(OBSERVATIONS)
    expected = {
        "observations": OBSERVATIONS,
        "q_values": learner.q_values(OBSERVATIONS).tolist(),
        "std": belief.std.tolist(),
        "predictive_std": belief.predictive_std.tolist(),
    }
    Path("expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = GOLDEN / f"format-{FORMAT}"
    shutil.rmtree(place, ignore_errors=True)
    (place / "agents").mkdir(parents=True)
    make_agents(place / "agents")
    make_run(place)
