"""The example of docs/adding-an-agent.md, executed as it stands there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from bdqn.agents import AGENTS
from bdqn.config.settings import Training
from support.agents import VECTOR, build, random_batch

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-agent.md"


def test_the_example_is_short_runs_and_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, usage = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert recipe.count("\n") < 40
    (tmp_path / "max_boltzmann.py").write_text(recipe)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(AGENTS, "max-boltzmann", raising=False)
    importlib.import_module("max_boltzmann")
    try:
        exec(compile(usage, str(PAGE), "exec"), {})
        obs = np.repeat(random_batch(VECTOR, 1).obs, 20_000, axis=0)
        # Epsilon 0.5 and Q = (0, 0, log 2): the softmax is (1/4, 1/4, 1/2), and half of the time it is not asked.
        agent = build("max-boltzmann", VECTOR, Training(buffer_size=100, learning_starts=1), epsilon=0.5)
        with torch.no_grad():
            agent.online.head.last.weight.zero_()
            agent.online.head.last.bias.copy_(torch.tensor([0.0, 0.0, 2.0]).clamp(min=1).log())
        agent.steps = 1
        shares = np.bincount(agent.act(obs), minlength=3) / len(obs)
        np.testing.assert_allclose(shares, [1 / 8, 1 / 8, 3 / 4], atol=0.015)
    finally:
        del AGENTS["max-boltzmann"]
