from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from support.cli import same_threads, train

__all__ = ["figures", "same_threads", "train"]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """What would be drawn, instead of files: drawing takes seconds."""
    drawn: list[Figure] = []
    monkeypatch.setattr("bdqn.report.figures.save", lambda figure, path: drawn.append(figure))
    return drawn
