"""Action masks: every agent obeys them when it acts, and bounds its targets by those of the next observation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.agents import AGENTS
from bdqn.networks.heads import TrainingIndices
from bdqn.qlearning.acting import Actor
from bdqn.qlearning.targets import double_q, max_q
from bdqn.replay.batch import Batch
from bdqn.replay.buffer import bytes_per_frame
from bdqn.runs.evaluation import evaluate
from bdqn.runs.playback import record
from support.fingerprints import fingerprint
from support.masked import ACTIONS, AllTrue, Masked, MaskedByMethod, MaskedTwice, Prize
from support.probes import LEARNING, trained
from support.small import plain_and_wrapped, small

EVERY = pytest.mark.parametrize("agent", AGENTS)
LEARNERS = pytest.mark.parametrize("agent", LEARNING)


def make(agent: str, source: Any = Masked, num_envs: int = 1, **settings: Any) -> bdqn.Learner:
    return small(agent, source, num_envs, **settings)


def stored(learner: bdqn.Learner) -> tuple[Batch, np.ndarray]:
    """All transitions that the replay buffer holds, and which actions were allowed where each was taken."""
    replay = learner.agent.replay
    env, slot = replay.index()
    return replay.gather(env, slot), replay.allowed_at(env, slot)


@EVERY
@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_forbidden_action_is_never_taken_and_never_stored(agent: str, num_envs: int) -> None:
    learner = make(agent, num_envs=num_envs).learn(120)  # the environment refuses forbidden ones
    batch, allowed = stored(learner)
    assert len(batch.action) > 40
    assert allowed[np.arange(len(allowed)), batch.action].all()
    assert not allowed.all()
    evaluate(learner, 2)
    evaluate(learner, 2, deterministic=False, epsilon=0.5)


def test_boldness_that_acts_at_random_obeys_them_too() -> None:
    """As bdqn-explore does on screens that never recur; no observation of this environment does."""
    learner = make("bdqn-explore", num_envs=3, bold_unlike="uniform").learn(120)
    actor = Actor(learner.agent, np.random.default_rng(0), 50, greedy=False)
    masks = np.tile(np.arange(ACTIONS) == 3, (50, 1))
    assert set(actor.choose(actor.view(np.zeros((50, 3), np.float32), masks)).tolist()) == {3}
    assert learner.agent.draws.at_random.any()


@EVERY
def test_what_is_predicted_obeys_the_masks_that_are_given(agent: str) -> None:
    learner = make(agent).learn(60)
    obs = np.random.default_rng(0).uniform(-1, 1, (200, 3)).astype(np.float32)
    masks = np.random.default_rng(1).random((200, ACTIONS)) < 0.5
    masks[:, 3] |= ~masks.any(1)
    for deterministic in (True, False):
        actions, _ = learner.predict(obs, deterministic=deterministic, action_masks=masks)
        assert masks[np.arange(200), actions - 2].all()
        (only,) = set(learner.predict(obs, deterministic=deterministic, action_masks=[0, 0, 0, 1, 0])[0].tolist())
        assert only == 5
    assert learner.predict(obs[0], action_masks=[0, 1, 0, 0, 0])[0] == 3
    assert len(set(learner.predict(obs, deterministic=False)[0].tolist())) > 1  # without masks all are allowed


def test_masks_bound_what_is_safe_and_what_is_best() -> None:
    learner = make("bdqn").learn(60)
    obs = learner.envs.obs[0]
    masks = np.array([True, False, True, False, False])
    probabilities = learner.optimal_action_probabilities(obs, action_masks=masks)
    assert probabilities.sum() == pytest.approx(1)
    assert (probabilities[~masks] == 0).all()
    q = learner.q_posterior(obs)
    bound = np.where(masks, q.mean - q.std, -np.inf)
    assert learner.safe_action(obs, scale=1.0, action_masks=masks) == bound.argmax() + 2
    assert learner.safe_action([obs, obs], action_masks=[[0, 1, 0, 0, 0], [0, 0, 0, 0, 1]]).tolist() == [3, 6]


@pytest.mark.parametrize(
    ("masks", "says"),
    [
        (np.ones(4), r"action_masks must have shape \(5,\) or \(1, 5\), not \(4,\)"),
        (np.ones((2, 5)), r"not \(2, 5\)"),
        (np.zeros(5), "allow no action for some observation"),
    ],
)
def test_masks_that_do_not_fit_what_is_asked_are_refused(masks: Any, says: str) -> None:
    learner = make("bdqn")
    for ask in (learner.predict, learner.safe_action, learner.optimal_action_probabilities):
        with pytest.raises(ValueError, match=says):
            ask(learner.envs.obs[0], action_masks=masks)


@pytest.mark.parametrize("bootstrap", [double_q, max_q])
@LEARNERS
def test_the_mask_of_the_next_observation_bounds_the_target(agent: str, bootstrap: Any) -> None:
    learner = make(agent).learn(60)
    targets, (batch, here) = learner.agent.targets, stored(learner)
    batch = replace(batch, returns=None)  # of whole episodes, which some agents mix in
    indices: TrainingIndices = learner.agent.online.head.training_indices(
        learner.agent.draws.training, np.random.default_rng(0), len(batch.action)
    )
    with torch.no_grad():
        next_obs = targets.tensor(batch.next_obs)
        select = targets.online.q(targets.online.features(next_obs), indices.select).numpy()
        evaluate = targets.target.q(targets.target.features(next_obs), indices.evaluate).numpy()
    found = targets.td_target(batch, indices, bootstrap).numpy()

    def expected(allowed: np.ndarray) -> np.ndarray:
        allowed = allowed[:, None] if select.ndim == 3 else allowed  # for every member alike
        chooser = select if bootstrap is double_q else evaluate
        best = np.where(allowed, chooser, -np.inf).argmax(-1)
        value = np.take_along_axis(evaluate, best[..., None], -1).squeeze(-1)
        reward, discount = targets.reward_and_discount(batch)
        return reward.reshape(-1, *[1] * (value.ndim - 1)) + discount.reshape(-1, *[1] * (value.ndim - 1)) * value

    np.testing.assert_allclose(found, expected(batch.next_allowed), atol=1e-5)
    assert np.isfinite(found).all()
    assert batch.terminal.any()
    assert np.abs(found - expected(here)).max() > 1e-3  # with the mask of the observation before, it is another
    unmasked = targets.td_target(replace(batch, next_allowed=None), indices, bootstrap).numpy()
    assert np.abs(found - unmasked).max() > 1e-3


@LEARNERS
def test_a_problem_whose_unmasked_optimum_is_forbidden_is_solved(agent: str) -> None:
    learner = trained(agent, Prize, 1500)
    q = learner.q_values(np.arange(4))
    np.testing.assert_allclose(q[1:, 1], Prize.VALUES, atol=0.2)  # the prior shrinks some a little
    assert learner.predict(np.arange(1, 4), action_masks=[1, 1, 0])[0].tolist() == [1, 1, 1]
    assert q[0, 2] == pytest.approx(5, abs=0.5)


def test_every_backed_up_draw_solves_it_exactly() -> None:
    """Backups, too, take what the mask of the next observation allows."""
    learner = trained("bdqn-explore", Prize, 600)
    belief = learner.agent.view(np.arange(1, 4)).belief
    assert belief is not None
    draws = learner.reward_unit * belief.sample(np.random.default_rng(0), 30)
    left, right = np.array([1, 1, 2]) / 8, np.array(Prize.VALUES)  # Q*: left leads to the place before, or to the first
    np.testing.assert_allclose(draws[..., :2], np.broadcast_to(np.stack([left, right], 1), (30, 3, 2)), atol=0.02)


def test_without_masks_the_same_network_expects_the_prize_everywhere() -> None:
    """What makes the test above one of masks: the prize spreads to where it is forbidden."""
    q = trained("ddqn", Prize, 1500).q_values(np.arange(4))
    assert (q[1:, 2] > q[1:, :2].max(1) + 0.5).all()


@EVERY
def test_masks_that_forbid_nothing_change_no_bit(agent: str) -> None:
    plain, masked = plain_and_wrapped(agent, AllTrue)
    assert masked.agent.replay.allowed is not None
    one, other = fingerprint(plain), fingerprint(masked)
    assert {name for name in one if one[name] != other[name]} <= {"replay", "environments", "agent"}
    batches = [learner.agent.replay.gather(*learner.agent.replay.index()) for learner in (plain, masked)]
    for name in ("obs", "action", "reward", "next_obs", "terminal"):
        np.testing.assert_array_equal(*(getattr(batch, name) for batch in batches))
    assert plain.agent.metrics == masked.agent.metrics


@pytest.mark.parametrize(
    ("agent", "source"), [*((agent, Masked) for agent in AGENTS), ("ddqn", MaskedByMethod), ("ddqn", MaskedTwice)]
)
def test_a_run_with_masks_goes_on_exactly(agent: str, source: Any, tmp_path: Path) -> None:
    learner = make(agent, source, 2).learn(50)
    bdqn.Checkpoints(tmp_path).save(learner)
    restored = bdqn.Checkpoints(tmp_path).load(source)
    assert (restored.restarted, restored.replay, restored.changed) == ({}, True, ())
    np.testing.assert_array_equal(restored.learner.envs.allowed, learner.envs.allowed)
    assert fingerprint(restored.learner.learn(40)) == fingerprint(learner.learn(40))


def test_taxi_is_driven_by_its_own_masks_and_none_is_said_to_be_ignored() -> None:
    learner = make("bdqn-explore", "Taxi-v4", buffer_size=1000).learn(400)
    batch, allowed = stored(learner)
    assert allowed[np.arange(len(allowed)), batch.action].all()
    assert (batch.reward > -10).all()  # -10 is what picking up or dropping off in the wrong place costs


def test_what_is_watched_obeys_the_masks_and_shows_them() -> None:
    learner = make("bdqn").learn(60)
    recording = record(learner, max_steps=30, episodes=100)
    assert recording.allowed is not None
    rows = np.arange(len(recording.action))
    assert recording.allowed[rows, recording.action].all()
    assert recording.allowed[rows, recording.greedy].all()
    assert recording.best is not None
    assert (recording.best[~recording.allowed] == 0).all()
    assert np.isfinite(recording.mean).all()


def test_masks_take_a_bit_per_action_of_the_replay_buffer() -> None:
    masked = make("ddqn").agent.replay
    assert masked.allowed is not None
    assert masked.allowed.nbytes == 80 * 1
    assert masked.frame_bytes == bytes_per_frame((3,), np.float32, 0) + 1
    assert bytes_per_frame((3,), np.float32, 0, masked_actions=17) == bytes_per_frame((3,), np.float32, 0) + 3


def test_an_actor_explores_among_what_is_allowed_only() -> None:
    learner = make("ddqn").learn(60)
    actor = Actor(learner.agent, np.random.default_rng(0), 50, greedy=True, epsilon=1.0)
    masks = np.tile([True, False, False, True, False], (50, 1))
    actions = actor.choose(actor.view(np.zeros((50, 3), np.float32), masks))
    assert set(actions.tolist()) == {0, 3}
