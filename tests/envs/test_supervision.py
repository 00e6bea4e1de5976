"""Environments that fail are made anew, so often and no oftener, and nothing false is learned from it."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import bdqn
from bdqn.config.settings import SettingError
from bdqn.envs import EnvironmentWarning, StepTimeout, blamed
from bdqn.runs.evaluation import evaluate
from support.worlds import EPISODE, World

QUICK: dict[str, Any] = {"learning_starts": 1_000, "buffer_size": 400, "features": 4, "n_steps": 1}


class Fragile(World):
    """Fails in some of the decisions, or of the resets, that environments of this class are asked for in all."""

    bad_steps: frozenset[int] = frozenset()
    bad_resets: frozenset[int] = frozenset()
    hang = failed = False
    steps = resets = closed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        cls = type(self)
        cls.resets += 1
        if cls.resets in self.bad_resets:
            raise ConnectionError("nobody answers")
        return super().reset(seed=seed)

    def step(self, action: int) -> Any:
        cls = type(self)
        cls.steps += 1
        if cls.steps in self.bad_steps:
            self.failed = True
            if not self.hang:
                raise ConnectionError("lost")
            with suppress(Exception):  # an environment may swallow what it meets, but not the alarm
                time.sleep(30)
        return super().step(action)

    def close(self) -> None:
        if self.failed:
            type(self).closed += 1
            raise OSError("gone already")


def fragile(**changes: Any) -> type[Fragile]:
    return type("Odd", (Fragile,), changes)


def stored(learner: bdqn.Learner, env: int = 0) -> list[tuple[Any, ...]]:
    """The transitions that the replay memory would give, in the order in which they came."""
    replay = learner.agent.replay
    slots = [slot for slot in range(int(replay.written[env])) if replay.is_transition[env, slot]]
    batch = replay.gather(np.full(len(slots), env), np.array(slots))
    return list(zip(batch.obs.tolist(), batch.next_obs.tolist(), batch.terminal.tolist(), strict=True))


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_failed_step_cuts_the_episode_and_only_what_happened_is_stored(num_envs: int) -> None:
    source = fragile(bad_steps={5 * num_envs + 1})  # the sixth decision of environment 0
    learner = bdqn.make("random", source, num_envs=num_envs, restart_env=2, seed=1, **QUICK)
    real: dict[int, list[tuple[Any, ...]]] = {i: [] for i in range(num_envs)}
    episodes, restarts = [], []
    before = learner.envs.obs
    with pytest.warns(EnvironmentWarning, match=r"Environment 0 was restarted \(1 of 2\): step\(\) of Odd raised Conn"):
        steps = list(learner.steps(num_envs * (EPISODE + 8)))
    for step in steps:
        episodes += step.episodes
        restarts += step.restarts
        began = {restart.env: restart.obs for restart in step.restarts}
        for i in range(num_envs):
            first = began.get(i, before[i])
            real[i].append((first.tolist(), step.next_obs[i].tolist(), bool(step.terminal[i])))
        before = step.obs
    assert [restart.env for restart in restarts] == [0]
    assert (episodes[0].env, episodes[0].length, episodes[0].raw_return) == (0, 5, 5.0)
    assert episodes[0].truncated
    assert episodes[0].failed
    assert not any(episode.failed for episode in episodes[1:])
    assert [episode.length for episode in episodes[1:]] == [EPISODE] * num_envs
    assert learner.num_timesteps == num_envs * (EPISODE + 8)
    for i in range(num_envs):
        assert stored(learner, i) == real[i]
    assert [terminal for *_, terminal in stored(learner)][:6] == [False] * 6
    assert source.closed == 1


def test_n_step_returns_do_not_cross_a_failure() -> None:
    learner = bdqn.make("random", fragile(bad_steps={6}), restart_env=1, **QUICK | {"n_steps": 3})
    with pytest.warns(EnvironmentWarning):
        learner.learn(10)
    replay = learner.agent.replay
    slots = np.flatnonzero(replay.is_transition[0])
    steps = replay.outcomes(np.zeros(len(slots), np.int64), slots).steps
    assert steps.tolist() == [3, 3, 3, 2, 1, 3, 3, 3, 2, 1]  # five decisions, the failure, five decisions


def test_a_failed_reset_begins_elsewhere_and_the_episode_before_it_counts_as_it_ended() -> None:
    learner = bdqn.make("random", fragile(bad_resets={2}), restart_env=1, **QUICK)
    with pytest.warns(EnvironmentWarning, match=r"reset\(\) of Odd raised ConnectionError: nobody answers"):
        steps = list(learner.steps(EPISODE + 3))
    (episode,) = [episode for step in steps for episode in step.episodes]
    assert (episode.length, episode.truncated, episode.failed) == (EPISODE, False, False)
    assert len(stored(learner)) == EPISODE + 3


def test_after_so_many_restarts_the_error_stands() -> None:
    learner = bdqn.make("random", fragile(bad_steps=frozenset(range(4, 99))), restart_env=2, **QUICK)
    with pytest.raises(ConnectionError, match="lost"):
        learner.learn(20)
    assert learner.envs._supervisor.restarts == 2  # type: ignore[union-attr]


def test_without_being_asked_nothing_is_restarted() -> None:
    source = fragile(bad_steps={4})
    with pytest.raises(ConnectionError, match="lost"):
        bdqn.make("random", source, **QUICK).learn(20)
    assert source.resets == 1


def test_a_new_environment_has_a_seed_of_its_own_and_the_same_one_again() -> None:
    def first_observations() -> list[Any]:
        learner = bdqn.make("random", fragile(bad_steps={3, 9}), restart_env=2, seed=4, **QUICK)
        with pytest.warns(EnvironmentWarning):
            steps = list(learner.steps(10))
        return [restart.obs.tolist() for step in steps for restart in step.restarts if restart.obs is not None]

    first = first_observations()
    assert first == first_observations()
    assert first[0] != first[1]


def test_a_step_that_hangs_is_interrupted_and_its_environment_restarted() -> None:
    learner = bdqn.make("random", fragile(bad_steps={4}, hang=True), restart_env=1, step_timeout=0.05, **QUICK)
    began = time.monotonic()
    with pytest.warns(
        EnvironmentWarning, match=r"StepTimeout: it had not finished after 0\.05 s \(test_supervision\.py, "
    ):
        learner.learn(10)
    assert time.monotonic() - began < 10
    assert learner.num_timesteps == 10


def test_a_step_that_hangs_ends_the_run_where_nothing_may_be_restarted() -> None:
    learner = bdqn.make("random", fragile(bad_steps={4}, hang=True), step_timeout=0.05, **QUICK)
    with pytest.raises(StepTimeout, match=r"not finished after 0\.05 s"):
        learner.learn(10)


def test_a_time_limit_outside_the_main_thread_is_refused_and_says_why() -> None:
    learner = bdqn.make("random", World, step_timeout=1.0, restart_env=5, **QUICK)
    errors: list[Exception] = []

    def learn() -> None:
        try:
            learner.learn(1)
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=learn)
    thread.start()
    thread.join()
    assert "needs the main thread" in str(errors[0])
    assert blamed(errors[0]) is None  # and no environment was restarted for it


def test_an_evaluation_does_not_count_an_episode_that_failed() -> None:
    source = fragile()
    learner = bdqn.make("random", source, restart_env=1, **QUICK)
    source.bad_steps = frozenset({4})
    with pytest.warns(EnvironmentWarning):
        assert evaluate(learner, 2).lengths == (EPISODE, EPISODE)


def test_an_instance_cannot_be_made_anew() -> None:
    with pytest.raises(SettingError, match="restart_env makes new environments, but an instance was given"):
        bdqn.make("random", World(), restart_env=1)
    with pytest.raises(SettingError, match="restart_env must be at least 0"):
        bdqn.make("random", World, restart_env=-1)


def test_a_saved_learner_is_supervised_as_it_was(tmp_path: Any) -> None:
    learner = bdqn.make("random", "CartPole-v1", restart_env=3, step_timeout=2.0, **QUICK)
    learner.save(tmp_path / "agent")
    assert bdqn.load(tmp_path / "agent").supervision == learner.supervision
