"""Structured observations as rows of bytes, and several actions as one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

import bdqn
from bdqn.envs import BadAnswer, Environments, EnvironmentWarning, UnsupportedSpace, make_env
from bdqn.envs.adapted import adapted
from bdqn.envs.check import check_env
from bdqn.envs.minigrid import missions
from bdqn.envs.products import ProductSpace
from bdqn.envs.records import RecordSpace
from support.structured import PARTS, OneLeafTells, Structured
from support.worlds import world


def at(observation: Any, name: str) -> Any:
    for key in name.split("/"):
        observation = observation[int(key) if isinstance(observation, tuple) else key]
    return observation


def test_every_part_comes_back_as_it_was() -> None:
    PARTS.seed(0)
    space = RecordSpace(PARTS, "World")
    samples = [PARTS.sample() for _ in range(20)]
    rows = np.stack([space.pack(sample) for sample in samples])
    assert rows.shape == (20, space.record.itemsize)
    assert space.contains(rows[0])
    first = {"gear": -1, "dials": np.array([[1, 0], [0, -2]])}  # categories are counted from zero
    names = ["bounded", "camera/left", "clock", "dials", "gear", "lamps", "pair/0", "pair/1", "speed"]
    assert sorted(space.unpack(rows)) == names
    for name, values in space.unpack(rows).items():
        for value, sample in zip(values, samples, strict=True):
            np.testing.assert_array_equal(value + first.get(name, 0), np.float32(at(sample, name)))


def test_a_batch_is_its_rows_however_it_is_given() -> None:
    space = RecordSpace(PARTS, "World")
    samples = [PARTS.sample() for _ in range(3)]
    rows = np.stack([space.pack(sample) for sample in samples])

    def stacked(path: Any, part: Any) -> Any:
        if isinstance(part, spaces.Dict):
            return {key: stacked((*path, key), inner) for key, inner in part.spaces.items()}
        if isinstance(part, spaces.Tuple):
            return tuple(stacked((*path, str(i)), inner) for i, inner in enumerate(part.spaces))
        return np.stack([at(sample, "/".join(path)) for sample in samples])

    for given in (stacked((), PARTS), rows):
        batch, single = space.batch(given)
        np.testing.assert_array_equal(batch, rows)
        assert not single
    for one in (samples[1], rows[1]):
        batch, single = space.batch(one)
        np.testing.assert_array_equal(batch, rows[1:2])
        assert single


def changed(**parts: Any) -> Any:
    return lambda self: {**OneLeafTells("image").reset(seed=0)[0], **parts}


ODD = {
    "Odd gave an array of uint8 of shape (4, 4) as the observation's 'image', but declares uint8 of shape (4, 4, 1)": {
        "image": np.zeros((4, 4), np.uint8)
    },
    "Odd gave 5 as the observation's 'category', but declares Discrete(2, start=3)": {"category": 5},
    "Odd gave an array of int64 of shape (2,) as the observation's 'dials', but declares MultiDiscrete([2 2])": {
        "dials": np.array([0, 2])
    },
    "Odd gave NaN or infinity as the observation's 'vector': remove them with a wrapper.": {
        "vector": np.array([0, np.nan])
    },
    "Odd gave a str as the observation's 'vector', but declares float32 of shape (2,)": {"vector": "left"},
    "Odd gave NaN or infinity as the observation's 'vector'": {"vector": np.array([0, 1e300])},  # too large for float32
    "Odd gave numbers as the observation's 'image' that uint8 of shape (4, 4, 1) cannot represent: declare their": {
        "image": np.full((4, 4, 1), 0.5)
    },
    "Odd gave numbers as the observation's 'image' that uint8": {"image": np.full((4, 4, 1), 300)},
    "Odd gave numbers as the observation's 'lamps' that": {"lamps": np.array([0, 2])},
    "Odd gave an array of float32 of shape (7, 2) as the observation's 'vector', but": {
        "vector": np.zeros((7, 2), np.float32)
    },
}


@pytest.mark.parametrize(("says", "parts"), ODD.items())
def test_a_part_that_is_not_as_declared_is_refused_in_a_sentence(says: str, parts: dict[str, Any]) -> None:
    odd = world(observation_space=OneLeafTells.observation_space, observe=changed(**parts))
    with pytest.raises(BadAnswer) as caught:
        bdqn.make("random", odd, buffer_size=100)
    assert says in str(caught.value)


def test_a_part_that_is_missing_is_refused() -> None:
    odd = world(observation_space=OneLeafTells.observation_space, observe=lambda self: {"vector": np.zeros(2)})
    with pytest.raises(BadAnswer, match="a dict of length 1 as observation, in which 'category' is missing, but decl"):
        Environments([odd()], [0])


@pytest.mark.parametrize(
    ("observations", "says"),
    [
        (
            spaces.Dict(word=spaces.Text(3)),
            "Odd observes 'word', of space Text, which is text, .*leave it out with gymnasium.wr",
        ),
        (spaces.Tuple([spaces.Sequence(spaces.Discrete(2))]), "Odd observes '0', of space Sequence"),
        (spaces.Dict(), r"Odd observes Dict\(\), which has no parts: observe a constant"),
        (spaces.Text(3), "Odd has the observation space Text.* or a Dict or Tuple of these: turn it into numbers"),
    ],
)
def test_texts_and_the_like_are_refused_in_a_sentence(observations: Any, says: str) -> None:
    with pytest.raises(UnsupportedSpace, match=says):
        Environments([world(observation_space=observations)()], [0])
    (finding,) = check_env(world(observation_space=observations))
    assert (finding.level, finding.subject) == ("error", "spaces")


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiDiscrete([2, 3], start=[0, 5]),
        spaces.MultiDiscrete([[2, 2], [1, 3]]),
        spaces.MultiBinary(4),
        spaces.MultiBinary((2, 2)),
    ],
)
def test_every_combination_of_actions_has_one_number(space: Any) -> None:
    product = ProductSpace(space, "World")
    combinations = product.combination(np.arange(product.n))
    assert all(space.contains(combination) for combination in combinations)
    assert len({combination.tobytes() for combination in combinations}) == product.n
    np.testing.assert_array_equal(product.combination(1), combinations[1])
    several = space.nvec.prod() if isinstance(space, spaces.MultiDiscrete) else 2 ** np.prod(space.shape)
    assert product.n == several


@pytest.mark.parametrize(
    ("actions", "says"),
    [
        (
            spaces.MultiDiscrete([101, 100]),
            r"MultiDiscrete\(\[101 100\]\) of 10,100 combinations, but bdqn needs 1",
        ),
        (spaces.MultiBinary(14), "of 16,384 combinations.*offer fewer with gymnasium.wrappers.TransformAction"),
        (
            spaces.MultiBinary(20_000),
            r"MultiBinary\(20000\) of about 10\^6021 combinations, but bdqn needs 1 to 10,000",
        ),
        (spaces.Box(-1, 1, (2,)), "Odd has the action space Box.*discretise them, for example with gymn"),
    ],
)
def test_too_many_combinations_and_continuous_actions_are_refused(actions: Any, says: str) -> None:
    with pytest.raises(UnsupportedSpace, match=says):
        Environments([world(action_space=actions)()], [0])


def test_masks_of_several_actions_are_those_of_their_combinations() -> None:
    class Chosen(Structured):
        def action_masks(self) -> Any:
            return [0, 0, 1, 0, 0, 0]  # (0, 7)

        def step(self, action: Any) -> Any:
            assert action.tolist() == [0, 7]
            return super().step(action)

    learner = bdqn.make("random", Chosen, buffer_size=100).learn(30)
    assert learner.predict(learner.envs.obs[0], action_masks=[0, 0, 0, 0, 1, 0])[0].tolist() == [1, 6]


# --- MiniGrid ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["MiniGrid-Empty-5x5-v0", "MiniGrid-Fetch-5x5-N2-v0", "MiniGrid-DoorKey-5x5-v0"])
def test_minigrid_is_taken_as_it_is(env_id: str) -> None:
    raw, envs = make_env(env_id), Environments([make_env(env_id)], [4])
    observation, _ = raw.reset(seed=4)
    texts = missions(raw.observation_space["mission"])
    assert texts is not None
    seen = set()
    for action in np.random.default_rng(0).integers(7, size=200):
        leaves = envs.observation_space.unpack(envs.obs)
        np.testing.assert_array_equal(leaves["image"][0], observation["image"])
        assert leaves["direction"][0] == observation["direction"]
        assert texts[leaves["mission"][0]] == observation["mission"]
        seen.add(observation["mission"])
        observation, _, terminated, truncated, _ = raw.step(action)
        envs.step([action])
        if terminated or truncated:
            observation, _ = raw.reset()
    assert len(seen) > (env_id == "MiniGrid-Fetch-5x5-N2-v0")


def test_missions_without_end_are_refused_as_text() -> None:
    with pytest.raises(UnsupportedSpace, match="observes 'mission', of space BabyAIMissionSpace, which is text, but"):
        Environments([make_env("BabyAI-GoToObj-v0")], [0])


@pytest.mark.parametrize("source", [Structured, "MiniGrid-Empty-5x5-v0"])
def test_it_is_checked_part_by_part(source: Any) -> None:
    findings = {finding.subject: finding for finding in check_env(source, episodes=1)}
    assert findings["observations"].level == "ok"
    expected = "camera/left: uint8 of shape (5, 5, 2)" if source is Structured else "mission: one mission"
    assert expected in findings["observations"].text
    assert findings["seeds"].level == "ok"


BOUNDED = spaces.Dict(
    near=spaces.Box(-1, 1, (2,)),
    camera=spaces.Tuple([spaces.Box(0, 9, (), np.uint8)]),
    free=spaces.Box(-np.inf, 1, (2,)),
)


def beyond_bounds(self: Any) -> Any:
    return {"near": np.array([0.5, 5]), "camera": (np.uint8(200),), "free": np.array([-1e6, 0])}


def test_every_part_that_leaves_its_bounds_is_named_once() -> None:
    odd = world(observation_space=BOUNDED, observe=beyond_bounds)
    for source in (odd, SyncVectorEnv([odd] * 2)):
        with pytest.warns(EnvironmentWarning) as caught:
            bdqn.make("random", source, buffer_size=100).learn(30)
        near, camera = sorted((str(warning.message) for warning in caught), key=lambda text: "camera" in text)
        assert near.startswith(
            "Odd declares 'near' of its observations as float32 of shape (2,) in [-1, 1], but returned 5 at [1], "
            "outside [-1, 1]. The network scales by the declared bounds"
        )
        assert "'camera/0' of its observations as uint8 of shape () in [0, 9], but returned 200, outside" in camera


def test_the_bounds_of_parts_are_checked() -> None:
    findings = check_env(world(observation_space=BOUNDED, observe=beyond_bounds), episodes=1)
    bounds = {f.text.partition(":")[0]: f"{f.level}: {f.text}" for f in findings if f.subject == "bounds"}
    assert bounds.keys() == {"near", "camera/0", "free"}
    assert bounds["near"].startswith(
        "warning: near: float32 from 0.5 to 5, at [1] from 5 to 5, but declared in [-1, 1]"
    )
    assert "uint8 from 200 to 200, but declared in [0, 9]" in bounds["camera/0"]
    assert bounds["free"].startswith("note: free: 2 of 2 numbers have no finite bounds and are not scaled")


def test_what_needs_no_adapter_stays_itself() -> None:
    env = gym.make("CartPole-v1")
    assert adapted(env) is env
