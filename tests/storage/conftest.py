from pathlib import Path

import pytest

from support.cli import same_threads, train
from support.small import small

__all__ = ["same_threads", "saved", "train"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A saved agent that nobody has shared yet."""
    small("bdqn", "CartPole-v1").learn(100).save(tmp_path / "saved")
    return tmp_path / "saved"
