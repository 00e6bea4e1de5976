"""Vector environments of Gymnasium and of ale-py: what is learned in them is what the own loop would give."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

import bdqn
from bdqn.agents import AGENTS
from bdqn.config.seeding import integer_seed
from bdqn.config.settings import SettingError
from bdqn.envs import BadAnswer, NotAnEnvironment, make_atari_vector
from bdqn.envs.gym_vector import NotSameStep
from bdqn.runs.evaluation import evaluate
from support.fingerprints import fingerprint
from support.masked import Masked, MaskedByMethod
from support.small import small
from support.structured import Structured

EVERY = pytest.mark.parametrize("agent", AGENTS)
SAME_STEP = AutoresetMode.SAME_STEP
LEARNED = ("weights", "target", "optimizer", "posterior", "draws", "replay", "counters", "generators")


def cartpole() -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(gym.make("CartPole-v1", disable_env_checker=True).unwrapped, 15)


def vector(source: Callable[[], Any] = cartpole, count: int = 3, mode: AutoresetMode = SAME_STEP) -> SyncVectorEnv:
    return SyncVectorEnv([source] * count, autoreset_mode=mode)


def learned_alike(one: bdqn.Learner, other: bdqn.Learner) -> None:
    a, b = fingerprint(one), fingerprint(other)
    assert {name for name in LEARNED if a[name] != b[name]} == set()
    np.testing.assert_array_equal(one.envs.obs, other.envs.obs)
    assert one.agent.updates > 0 or not one.agent.choices.learns


@EVERY
def test_every_agent_learns_what_it_learns_in_the_own_loop(agent: str) -> None:
    """Transitions, final observations, first ones, the bits of all weights."""
    learned_alike(small(agent, vector()).learn(150), small(agent, cartpole, 3).learn(150))


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("source", [cartpole, Structured, Masked])
def test_every_way_to_begin_episodes_comes_to_the_same(mode: AutoresetMode, source: Callable[[], Any]) -> None:
    steps: list[list[Any]] = [[], []]
    learners = [small("ddqn", vector(source, mode=mode)), small("ddqn", source, 3)]
    for learner, seen in zip(learners, steps, strict=True):
        learner.learn(150, lambda _, step, seen=seen: seen.append(step))
    learned_alike(*learners)
    assert sum(len(step.episodes) for step in steps[0]) > 5
    for one, other in zip(*steps, strict=True):
        assert one.episodes == other.episodes
        for name in ("next_obs", "reward", "terminal", "truncated", "ended", "obs", "next_allowed", "allowed"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("mode", [SAME_STEP, AutoresetMode.NEXT_STEP])
def test_environments_in_processes_of_their_own_come_to_the_same(mode: AutoresetMode) -> None:
    learner = small("ddqn", AsyncVectorEnv([cartpole] * 3, autoreset_mode=mode)).learn(150)
    learner.envs.close()
    learned_alike(learner, small("ddqn", cartpole, 3).learn(150))


def test_a_wrapped_vector_environment_is_taken() -> None:
    learned_alike(small("ddqn", RecordEpisodeStatistics(vector())).learn(150), small("ddqn", cartpole, 3).learn(150))


# --- going on -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "source"), [*((agent, cartpole) for agent in AGENTS), ("bdqn", Structured), ("bdqn", Masked)]
)
@pytest.mark.parametrize("mode", [SAME_STEP, AutoresetMode.NEXT_STEP])
def test_where_single_environments_can_be_restored_a_run_goes_on_exactly(
    agent: str, source: Callable[[], Any], mode: AutoresetMode, tmp_path: Path
) -> None:
    learner = small(agent, vector(source, mode=mode)).learn(60)
    bdqn.Checkpoints(tmp_path).save(learner)
    restored = bdqn.Checkpoints(tmp_path).load(vector(source, mode=mode))
    assert (restored.restarted, restored.replay, restored.changed) == ({}, True, ())
    learned_alike(restored.learner.learn(60), learner.learn(60))


def test_elsewhere_new_episodes_begin_and_nothing_else_is_lost(tmp_path: Path) -> None:
    learner = small("ddqn", RecordEpisodeStatistics(vector())).learn(60)
    bdqn.Checkpoints(tmp_path).save(learner)
    restored = bdqn.Checkpoints(tmp_path).load(RecordEpisodeStatistics(vector()))
    reason = "RecordEpisodeStatistics cannot save the state of its environments"
    assert restored.restarted == dict.fromkeys(range(3), reason)
    assert len(restored.learner.agent.replay) == len(learner.agent.replay)
    before, after = fingerprint(learner), fingerprint(restored.learner)
    assert {name for name in LEARNED if before[name] != after[name]} == {"replay"}  # where it stands now
    restored.learner.learn(60)


def test_a_saved_agent_is_evaluated_in_a_single_environment(tmp_path: Path) -> None:
    learner = small("ddqn", vector()).learn(60)
    with pytest.raises(SettingError, match=r"a vector environment, .* load it with a single one, bdqn.load\(path, env"):
        evaluate(learner, 1)
    learner.save(tmp_path / "agent")
    assert len(evaluate(bdqn.load(tmp_path / "agent", cartpole), 2).returns) == 2


# --- what is refused ------------------------------------------------------------------------------------------


class Counting(VectorEnv[Any, Any, Any]):
    """Counts up to three, in N environments at once; begins anew in the step after."""

    def __init__(self, count: int, mode: Any = AutoresetMode.NEXT_STEP) -> None:
        self.num_envs, self.metadata = count, {"autoreset_mode": mode}
        self.single_observation_space = gym.spaces.Box(0, 3, (1,), np.float32)
        self.single_action_space = gym.spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.now = np.zeros(self.num_envs)
        return self.now[:, None].astype(np.float32), {}

    def step(self, actions: Any) -> Any:
        self.now = np.where(self.now == 3, 0, self.now + 1)
        no = np.zeros(self.num_envs, np.bool_)
        return self.now[:, None].astype(np.float32), self.now, self.now == 3, no, {}


def test_a_single_one_that_begins_anew_in_the_next_step_is_converted() -> None:
    learner = bdqn.make("random", Counting(1), buffer_size=100)
    steps = list(learner.steps(7))
    assert [step.next_obs.item() for step in steps] == [1, 2, 3, 1, 2, 3, 1]
    assert [step.obs.item() for step in steps] == [1, 2, 0, 1, 2, 0, 1]
    assert [episode.length for step in steps for episode in step.episodes] == [3, 3]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            partial(Counting, 2),
            r"Counting does not begin .*: use gymnasium.make_vec\(..., vectorization_mode=\"sync\", vector_kwargs=",
        ),
        (partial(Counting, 2, None), "does not begin the next episode in the step in which one ends"),
        (partial(gym.make_vec, "CartPole-v1", num_envs=3), r"CartPoleVectorEnv does not .*: use gymnasium.make_vec\("),
        (
            lambda: RecordEpisodeStatistics(vector(mode=AutoresetMode.NEXT_STEP)),
            "RecordEpisodeStatistics does not .*: make it with autoreset_mode=gymnasium.vector.Auto",
        ),
    ],
)
def test_others_are_refused_with_the_line_that_helps(source: Callable[[], Any], says: str) -> None:
    with pytest.raises(NotSameStep, match=says):
        bdqn.make("random", source(), buffer_size=100)


def test_the_line_that_helps_does() -> None:
    """The one that the refusal of an environment's own vector version gives."""
    with pytest.raises(NotSameStep) as caught:
        bdqn.make("random", gym.make_vec("CartPole-v1", num_envs=3))
    (line,) = re.findall(r"use gymnasium(\.make_vec\(.*\)), or", str(caught.value))
    made = eval(f"gymnasium{line}".replace("...", "'CartPole-v1', num_envs=3"), {"gymnasium": gym})
    own = small("ddqn", partial(gym.make, "CartPole-v1"), 3).learn(150)
    learned_alike(small("ddqn", made).learn(150), own)


def test_an_environments_own_vector_version_of_one_is_seeded_by_one_number() -> None:
    runs = [bdqn.make("random", gym.make_vec("CartPole-v1", num_envs=1), buffer_size=100, seed=s) for s in (1, 1, 2)]
    one, again, other = ([step.obs.tolist() for step in learner.steps(40)] for learner in runs)
    assert one == again != other


def test_what_a_vector_environment_cannot_do_is_said() -> None:
    with pytest.raises(SettingError, match="num_envs is 2, but 3 in a vector was given"):
        bdqn.make("random", vector(), num_envs=2)
    with pytest.raises(SettingError, match="restart_env and step_timeout need single environments"):
        bdqn.make("random", vector(), restart_env=1)
    with pytest.raises(NotAnEnvironment, match="vector\\(\\) returned a vector environment: give the vector env"):
        bdqn.make("random", vector)
    with pytest.raises(NotAnEnvironment, match="which can be learned in, but not taken apart"):
        bdqn.make("random", vector(), buffer_size=100).make_env()


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_masks_by_a_method_are_not_ignored_but_refused(kind: type[SyncVectorEnv] | type[AsyncVectorEnv]) -> None:
    env = kind([MaskedByMethod] * 2, autoreset_mode=SAME_STEP)
    for source in (env, RecordEpisodeStatistics(env)):
        with pytest.raises(BadAnswer, match=r"has a method action_masks\(\), which a vector .*: give masks as info"):
            bdqn.make("random", source, buffer_size=100)
    env.close()


def test_infos_in_a_list_are_refused() -> None:
    with pytest.raises(BadAnswer, match=r"DictInfoToList gave a list of length 3 as info, .* leave out the wrapper"):
        bdqn.make("random", DictInfoToList(vector()), buffer_size=100)


# --- Atari ----------------------------------------------------------------------------------------------------


def test_ale_pys_vector_environment_gives_raw_rewards_and_true_successors() -> None:
    """Beside a twin that is stepped by hand: stacks, final screens and scores, over several episodes."""
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    make = partial(make_atari_vector, "ALE/SpaceInvaders-v5", 2, num_threads=1, max_num_frames_per_episode=480)
    learner = bdqn.make("random", make(), seed=1, buffer_size=4_000)
    twin = make()
    obs, _ = twin.reset(seed=np.array([integer_seed(1, f"environment-{i}") for i in range(2)]))
    np.testing.assert_array_equal(learner.envs.obs[:, -1], obs[:, -1])
    rng, ages, episodes, most = np.random.default_rng(0), np.zeros(2, int), 0, 0.0
    for _ in range(500):
        actions = rng.integers(6, size=2)
        step = learner.envs.step(actions)
        obs, reward, terminated, truncated, info = twin.step(actions)
        np.testing.assert_array_equal(step.reward, reward)
        np.testing.assert_array_equal(step.ended, terminated | truncated)
        ages, most = ages + 1, max(most, step.reward.max())
        for i in range(2):
            true = info["final_obs"][i] if step.ended[i] else obs[i]
            seen = min(ages[i] + 1, 4)
            np.testing.assert_array_equal(step.next_obs[i, -seen:], true[-seen:])
            assert (step.next_obs[i, : 4 - seen] == step.next_obs[i, 4 - seen]).all()  # the first, once more
            if step.ended[i]:
                ages[i], episodes = 0, episodes + 1
                assert (step.obs[i] == obs[i, -1]).all()
    assert episodes > 2
    assert most > 1  # not clipped
    assert learner.agent.spec.stack == 4
    assert learner.agent.replay.frames.shape[2:] == (84, 84)  # every screen is stored once


@EVERY
def test_every_agent_learns_in_ale_pys_vector_environment(agent: str) -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    learner = small(agent, make_atari_vector("pong", 2, num_threads=1), n_steps=1).learn(60)
    assert learner.configuration.family == "atari"
    assert learner.agent.updates > 0 or agent == "random"
    replay = learner.agent.replay
    batch = replay.gather(*replay.index())
    np.testing.assert_array_equal(batch.obs[:, 1:], batch.next_obs[:, :-1])


def test_its_pictures_of_colours_are_taken_as_they_are() -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    learner = bdqn.make("random", make_atari_vector("pong", 2, num_threads=1, grayscale=False), buffer_size=20)
    assert learner.learn(4).envs.obs.shape == (2, 4, 84, 84, 3)


def test_what_is_no_game_is_refused() -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    with pytest.raises(ValueError, match="CartPole-v1 is no Atari game: give an id such as ALE/Pong-v5"):
        make_atari_vector("CartPole-v1", 2)
    with pytest.raises(ValueError, match="num_envs must be at least 1, not 0"):
        make_atari_vector("pong", 0)


def test_a_protocol_that_it_cannot_follow_is_refused() -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    with pytest.raises(ValueError, match="cannot follow the protocol nature: use dqn or machado, or our own loop"):
        make_atari_vector("pong", 2, "nature")
