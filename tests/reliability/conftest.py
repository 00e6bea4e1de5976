from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bdqn.cli import main
from support import cartpole
from support.forks import Server, serving


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Starts real processes of the command line at once."""
    with serving(tmp_path_factory.mktemp("forks")) as server:
        yield server


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 600 decisions with its last three checkpoints. It is everyone's: copy it before changing it."""
    return _run(tmp_path_factory.mktemp("finished") / "run")


@pytest.fixture(scope="session")
def another_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with another seed."""
    return _run(tmp_path_factory.mktemp("another") / "run", "--seed", "1")


def _run(folder: Path, *more: str) -> Path:
    assert main([*cartpole.train(folder, 600), "--save-freq", "100", "--keep", "3", *more]) == 0
    return folder
