"""Environments and their wrappers go on exactly from a state that was a file, and those that cannot are named."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import Autoreset, ClipReward, RecordEpisodeStatistics, TimeAwareObservation, TimeLimit

from bdqn.envs import Environments, make_env
from bdqn.envs.state import CannotRestore, generator_state, get_state, set_generator_state, set_state
from bdqn.storage.state_files import from_files, to_files

KNOWN: list[tuple[str, dict[str, Any]]] = [
    ("CartPole-v1", {}),
    ("CartPole-v1", {"max_episode_steps": 9}),
    ("MountainCar-v0", {"max_episode_steps": 50}),
    ("Acrobot-v1", {"max_episode_steps": 50}),
    ("FrozenLake-v1", {}),
    ("CliffWalking-v1", {"is_slippery": True, "max_episode_steps": 60}),
    ("Taxi-v4", {"is_rainy": True, "fickle_passenger": True, "max_episode_steps": 60}),
    ("bdqn/DeepSea-v0", {"size": 7}),
    ("bdqn/DeepSea-v0", {"size": 7, "stochastic": True}),
    *(
        (f"MinAtar/{game}-v1", {"max_episode_steps": 300})
        for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
    ),
]


def through_files(state: Mapping[str, Any]) -> Any:
    return from_files(*to_files(state))


def play(envs: Environments, actions: np.ndarray) -> list[tuple[Any, ...]]:
    """What each decision led to, in every bit; an episode that ends is followed by the next.

    Where an action is forbidden, the next one that is allowed is taken.
    """
    seen = []
    for action in actions:
        masks = envs.allowed if envs.allowed is not None else np.ones((envs.num_envs, envs.action_space.n), bool)
        step = envs.step([int(np.roll(mask, -action).argmax() + action) % len(mask) for mask in masks])
        seen.append((step.next_obs.tobytes(), step.reward.tobytes(), step.terminal.tobytes(), step.obs.tobytes()))
        seen.append((*step.episodes, *envs._returns, *envs._lengths))
    return seen


@pytest.mark.parametrize(("env_id", "kwargs"), KNOWN, ids=lambda value: value if isinstance(value, str) else "")
def test_it_goes_on_exactly_from_any_point(env_id: str, kwargs: dict[str, Any]) -> None:
    if env_id.startswith("MinAtar"):
        pytest.importorskip("minatar", reason="the minatar extra is not installed")
    envs = Environments([make_env(env_id, env_kwargs=kwargs)], [1])
    rng = np.random.default_rng(0)
    ends = 0
    for length in (0, 1, *rng.integers(2, 90, 6)):
        play(envs, rng.integers(envs.action_space.n, size=length))
        other = Environments([make_env(env_id, env_kwargs=kwargs)], [2])
        assert other.load_state(through_files(envs.state()), [0]) == {}
        assert to_files(other.state()) == to_files(envs.state())
        actions = rng.integers(envs.action_space.n, size=120)
        seen = play(envs, actions)
        assert play(other, actions) == seen
        ends += sum(bool(step) and not isinstance(step[0], bytes | float) for step in seen)
    assert ends  # resets after a restoration were seen too


class Plain(gym.Env[np.ndarray, int]):
    """An environment whose state is whatever a test says."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)
    state: Any = None

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=kwargs.get("seed"))
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.np_random.random(1, np.float32), 0.0, bool(self.np_random.random() < 0.1), False, {}


class Telling(Plain):
    def __init__(self, state: Any = None) -> None:
        self.state = {} if state is None else state

    def get_env_state(self) -> Any:
        return self.state

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        self.state = state


CYCLE: dict[str, Any] = {}
CYCLE["itself"] = CYCLE


@pytest.mark.parametrize(
    "state",
    [
        {"bytes": b"abc"},
        {"set": {1, 2}},
        {"object": object()},
        {"generator": np.random.default_rng(0)},
        {"objects": np.array([None, 1])},
        {"complex": np.array([1j])},
        {"texts": np.array(["a", "b"])},
        {"wide": np.zeros(1, np.longdouble)},
        {"records": np.zeros(1, [("a", int)])},
        {1: "a key that JSON turns into a text"},
        {"$array": "a name that files use themselves"},
        {"a/b": np.zeros(1), "a": {"b": np.ones(1)}},
        CYCLE,
        [1, 2],
        object(),
    ],
    ids=lambda state: str(next(iter(state), "")) if isinstance(state, dict) else type(state).__name__,
)
def test_a_state_that_files_cannot_hold_is_refused_by_name_before_it_is_saved(state: Any) -> None:
    envs = Environments([Telling(state)], [0])
    problem = envs.unrestorable()
    assert problem is not None
    assert problem.startswith("get_env_state() of envs.test_state.Telling returned a state that cannot be saved: ")
    saved = envs.state()
    assert to_files(saved) == to_files(Environments([Telling(copy.deepcopy(state))], [0]).state())  # no address is told
    other = Environments([Telling()], [0])
    assert other.load_state(through_files(saved), [0]) == {0: problem}


def test_what_a_state_may_hold_comes_back_as_it_was() -> None:
    arrays = [np.eye(2, 3, dtype=kind) for kind in ("u1", "i2", "i8", "u8", "f2", "f4", "f8", "?")]
    state = {
        "arrays": arrays,
        "empty": np.zeros((0, 3)),
        "scalar": np.array(3.5),
        "turned": np.arange(6.0).reshape(2, 3).T,
        "kinds": [np.float32(0.1), np.int64(2**62), np.bool_(True), np.float64(0.1)],
        "numbers": [0.1, 2**100, True, None, float("inf"), -0.0],
        "text": "\u00e4\n",
        "nested": {"a": {"b": [{"c": np.ones(1)}]}},
    }
    back = through_files(state)
    assert back.keys() == state.keys()
    for was, now in zip(
        [*arrays, state["empty"], state["scalar"], state["turned"]],
        [*back["arrays"], back["empty"], back["scalar"], back["turned"]],
        strict=True,
    ):
        assert isinstance(now, np.ndarray)
        assert (now.dtype, now.shape, now.tolist()) == (was.dtype, was.shape, was.tolist())
        now[...] = 0  # it can be written to
    assert [(type(value), value) for value in back["kinds"]] == [(type(value), value) for value in state["kinds"]]
    assert repr(back["numbers"]) == repr(state["numbers"])
    assert back["text"] == state["text"]
    assert back["nested"]["a"]["b"][0]["c"].tolist() == [1.0]


class CartPoleOfOnesOwn(CartPoleEnv):
    """May hold more than Gymnasium's."""


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (Plain, "envs.test_state.Plain"),
        (CartPoleOfOnesOwn, "envs.test_state.CartPoleOfOnesOwn"),
        (lambda: TimeAwareObservation(make_env("CartPole-v1")), "stateful_observation.TimeAwareObservation"),
        (lambda: TimeLimit(Plain(), 5), "envs.test_state.Plain"),
    ],
)
def test_a_layer_that_is_not_known_is_named(make: Callable[[], gym.Env[Any, Any]], name: str) -> None:
    env = make()
    env.reset(seed=0)
    with pytest.raises(CannotRestore, match=rf"{name} has no get_env_state\(\) and set_env_state\(\)"):
        get_state(env)


def test_gymnasiums_common_wrappers_are_known() -> None:
    def wrapped() -> gym.Env[Any, Any]:
        return Autoreset(RecordEpisodeStatistics(ClipReward(TimeLimit(make_env("CartPole-v1"), 12), -0.5, 0.5)))

    def told(env: gym.Env[Any, Any], action: int) -> tuple[Any, ...]:
        observation, *rest, info = env.step(action)
        return observation.tobytes(), *rest, {k: v for k, v in info.get("episode", {}).items() if k != "t"}

    env, other = wrapped(), wrapped()
    env.reset(seed=0)
    rng = np.random.default_rng(1)
    for length in rng.integers(1, 30, 8):
        for action in rng.integers(2, size=length):
            env.step(action)
        other.reset(seed=5)
        set_state(other, through_files(get_state(env)))
        actions = rng.integers(2, size=40)
        assert [told(other, action) for action in actions] == [told(env, action) for action in actions]


def test_an_environment_that_is_made_otherwise_is_not_given_a_foreign_state() -> None:
    envs = Environments([make_env("CartPole-v1")], [0])
    bare = Environments([make_env("CartPole-v1").unwrapped], [0])
    play(envs, np.zeros(5, int))
    restarted = bare.load_state(through_files(envs.state()), [7])
    assert "it was " in restarted[0]
    assert "TimeLimit around " in restarted[0].split("but now is")[0]
    assert "TimeLimit" not in restarted[0].split("but now is")[1]
    assert bare._lengths == [0]
    assert np.array_equal(bare.obs[0], make_env("CartPole-v1").reset(seed=7)[0])


def test_only_the_environment_that_cannot_go_on_begins_anew() -> None:
    def make() -> Environments:
        return Environments([Telling(), Plain(), Telling()], [1, 2, 3])

    envs, other = make(), make()
    play(envs, np.zeros(25, int))
    assert max(envs._lengths) > 0
    assert other.load_state(through_files(envs.state()), [8, 9, 10]).keys() == {1}
    assert (other._lengths[0], other._lengths[2]) == (envs._lengths[0], envs._lengths[2])
    for _ in range(30):
        step, twin = envs.step([0, 0, 0]), other.step([0, 0, 0])
        assert step.next_obs[[0, 2]].tolist() == twin.next_obs[[0, 2]].tolist()
        assert step.next_obs[1].tolist() != twin.next_obs[1].tolist()


@pytest.mark.parametrize("name", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_every_kind_of_generator_goes_on(name: str) -> None:
    kind = getattr(np.random, name)
    rng, other = np.random.Generator(kind(1)), np.random.Generator(kind(2))

    def numbers(generator: np.random.Generator) -> list[Any]:
        words = generator.integers(2**32, size=701, dtype=np.uint32)  # odd: half of a 64-bit draw is still to come
        return [*words.tolist(), *generator.normal(size=7).tolist()]

    numbers(rng)
    set_generator_state(other, through_files(generator_state(rng)))
    assert numbers(other) == numbers(rng)


def test_the_old_generator_goes_on_and_a_position_beyond_its_table_is_refused() -> None:
    rng, other = np.random.RandomState(1), np.random.RandomState(2)
    rng.normal(size=3)  # an odd number: the second of a pair is still to come
    state = through_files(generator_state(rng))
    set_generator_state(other, state)
    assert other.normal(size=700).tolist() == rng.normal(size=700).tolist()
    for position in (-1, 625, 2**40):
        state["state"]["pos"] = position
        with pytest.raises(ValueError, match="not a state of a Mersenne twister"):
            set_generator_state(other, state)
