"""Returns of episodes in the replay buffer, against sums over the naive history that it was made from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bdqn.config.settings import Training
from bdqn.networks.heads import TrainingIndices
from bdqn.qlearning.agent import QAgent
from bdqn.qlearning.episode_returns import EpisodeReturns
from bdqn.qlearning.targets import double_q
from support.agents import VECTOR, build, random_batch, step_of
from support.replay import World, bonus_of, usual

GAMMA = 0.9


def agent_with(**training: Any) -> QAgent:
    return build("dqn-counts", VECTOR, Training(buffer_size=100, gamma=GAMMA, **training))


def naive(world: World, learned: Any) -> dict[int, float]:
    """The return that follows each frame, by its number; NaN where the end of its sum was not seen."""
    returns = {}
    for env in world.envs:
        for episode in env.episodes:
            ahead = np.nan
            for transition in reversed(episode):
                reward = learned(transition.reward)
                ahead = reward if transition.terminal else reward + GAMMA * ahead
                returns[int(np.ravel(transition.obs)[-1])] = ahead
    return returns


@settings(deadline=None, derandomize=True, max_examples=30)
@given(
    num_envs=st.integers(1, 3),
    stack=st.sampled_from([0, 4]),
    spare=st.integers(0, 12),
    bonuses=st.booleans(),
    history=st.lists(
        st.one_of(*[st.tuples(usual, usual, usual)] * 15, st.just(("restart",) * 3)), min_size=20, max_size=60
    ),
)
def test_they_are_the_naive_sums_of_what_is_learned(
    num_envs: int, stack: int, spare: int, bonuses: bool, history: list[tuple[str, ...]]
) -> None:
    """At every decision, in a ring that wraps; and one that starts to sum only now says the same, bit for bit."""
    targets = agent_with(reward_clip=30.0).targets
    world = World(num_envs, stack, stack + 2 + spare, bonuses=bonuses)
    returns = EpisodeReturns(world.replay, targets)
    for events in history:
        world.go(events)
        env, slot = world.replay.index()
        found = returns.at(env, slot)
        np.testing.assert_array_equal(found, EpisodeReturns(world.replay, targets).at(env, slot))
        expected = naive(world, lambda reward: min(reward, 30.0) + (bonus_of(reward) if bonuses else 0.0))
        frames = world.replay.observations(env, slot)[..., 0].reshape(len(env), max(stack, 1))[:, -1]
        np.testing.assert_allclose(found, [expected[frame] for frame in frames.tolist()], rtol=1e-5)


def test_a_new_unit_of_rewards_holds_for_old_returns_too() -> None:
    targets = agent_with(reward_scaling=True).targets
    world = World(1, 0, 20)
    for event in ("go", "terminated", "go"):
        world.step((event,))
    returns = EpisodeReturns(world.replay, targets)
    place = np.array([0]), np.array([0])
    assert returns.at(*place) == pytest.approx(1 + GAMMA * 2)
    targets.reward_unit = 4.0
    assert returns.at(*place) == pytest.approx((1 + GAMMA * 2) / 4)


@pytest.mark.parametrize(("timeout_is_terminal", "known"), [(False, False), (True, True)])
def test_an_episode_that_a_time_limit_cuts_has_no_return_unless_that_is_its_end(
    timeout_is_terminal: bool, known: bool
) -> None:
    agent = agent_with(timeout_is_terminal=timeout_is_terminal)
    agent.start(np.zeros((1, *VECTOR.shape), np.float32))
    rng = np.random.default_rng(0)
    for ended in (False, False, True, False):
        agent.observe(np.zeros(1, np.int64), step_of(rng, 1, ended=ended, truncated=ended))
    batch = agent.replay.gather(*agent.replay.index())
    assert batch.returns is not None
    assert np.isfinite(batch.returns).tolist() == [known, known, known, False]


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_target_is_mixed_with_the_return_where_that_is_known(share: float) -> None:
    plain = build("ddqn", VECTOR)
    mixed = build("dqn-counts", VECTOR, return_share=share)
    for agent in (plain, mixed):
        agent.targets.in_sync = False
    batch = random_batch(VECTOR, 4)
    returns = np.array([3.0, np.nan, -1.0, np.nan], np.float32)
    indices = TrainingIndices(None, None, None)
    td = plain.targets.td_target(batch, indices, double_q)
    arguments = {name: getattr(batch, name) for name in batch.__slots__} | {"returns": returns}
    target = mixed.targets.td_target(type(batch)(**arguments), indices, double_q)
    known = torch.tensor([True, False, True, False])
    assert torch.equal(target[~known], td[~known])
    expected = (1 - share) * td[known] + share * torch.from_numpy(returns)[known]
    torch.testing.assert_close(target[known], expected)
