"""Small runs of the command line; the fixtures are for a conftest to import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from bdqn.cli import main

SMALL = ["--learning-starts", "100", "--buffer-size", "2000", "--log-freq", "200", "--features", "16"]
REFITS = ["--posterior-update-interval", "200", "--posterior-batch-size", "500"]

Train = Callable[..., Path]


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    """The command line sets torch's threads for the whole process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Train bdqn on CartPole for a second or so; gives the run's directory."""

    def run(name: str, *arguments: str, steps: int = 600) -> Path:
        folder = tmp_path / name
        head = [
            "train",
            "--agent",
            "bdqn",
            "--env",
            "CartPole-v1",
            "--steps",
            str(steps),
            "--out",
            str(folder),
            "--quiet",
        ]
        assert main([*head, *SMALL, *(REFITS if "--agent" not in arguments else ()), *arguments]) == 0
        return folder

    return run
