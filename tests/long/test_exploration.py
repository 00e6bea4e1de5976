"""The default agent, untouched, where costs or the lack of a time limit used to hold it back; a minute for each."""

from __future__ import annotations

import pytest
import torch

import bdqn

pytestmark = pytest.mark.long


def returns(env: str, seed: int, steps: int) -> list[float]:
    """Of the episodes of a run."""
    torch.set_num_threads(1)
    ended, total = [], 0.0
    for step in bdqn.make("bdqn-explore", env, seed=seed).steps(steps):
        total += float(step.reward[0])
        if step.ended[0]:
            ended.append(total)
            total = 0.0
    return ended


@pytest.mark.parametrize("seed", [10, 11, 12])
def test_deep_sea_20_is_found_and_kept(seed: int) -> None:
    """The first 500 episodes; without `bold_while_new` none of five seeds found the treasure in 1,500."""
    found = [one > 0.5 for one in returns("bdqn/DeepSea20-v0", seed, 10_000)]
    assert any(found[:400])
    assert sum(found[-50:]) >= 45


@pytest.mark.parametrize("seed", [10, 11, 12])
def test_without_a_time_limit_the_way_that_is_known_is_gone(seed: int) -> None:
    """CliffWalking takes 13 decisions; with as many bold segments as modest ones, there were 5 episodes."""
    episodes = returns("CliffWalking-v1", seed, 10_000)
    assert len(episodes) >= 200
    assert sum(episodes[-50:]) / 50 > -30
