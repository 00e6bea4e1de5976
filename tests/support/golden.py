"""Makes tests/data/golden: a small run as this version of bdqn writes it, and what its agent believes.

Later versions must read it. It is made once for each format, from the top of the repository:

    python -m tests.support.golden
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import torch

import bdqn
from bdqn.cli import main

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
STEPS = 400
SETTINGS = (
    *("--env", "CartPole-v1", "--agent", "bdqn", "--steps", str(STEPS), "--seed", "7", "--threads", "1", "--quiet"),
    *("--features", "8", "--buffer-size", "300", "--learning-starts", "100", "--batch-size", "16"),
    *("--posterior-update-interval", "150", "--posterior-batch-size", "100", "--target-update-interval", "90"),
    *("--log-freq", "100", "--save-freq", "100", "--keep", "2", "--eval-freq", "200", "--eval-episodes", "1"),
)
OBSERVATIONS = [[0.0, 0.0, 0.0, 0.0], [0.1, -0.5, 0.05, 0.8], [-1.0, 1.0, -0.1, -1.5]]


def make(golden: Path) -> None:
    shutil.rmtree(golden, ignore_errors=True)
    golden.mkdir(parents=True)
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
    make(GOLDEN)
