"""Deep Sea is bsuite's, step by step."""

from typing import Any

import numpy as np
import pytest

from bdqn.envs import DeepSea, make_env


def oracle() -> Any:
    return pytest.importorskip(
        "bsuite.environments.deep_sea", reason="bsuite, the oracle of Deep Sea, is not installed"
    )


class LegacyNames:
    """A modern generator under the method names that bsuite calls."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.rand, self.randn = generator.random, generator.standard_normal


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize(("size", "mapping_seed"), [(2, 0), (5, 1), (10, 0), (10, 42)])
def test_every_step_is_that_of_bsuite(size: int, mapping_seed: int, stochastic: bool) -> None:
    theirs = oracle().DeepSea(size, deterministic=not stochastic, mapping_seed=mapping_seed)
    ours = DeepSea(size, mapping_seed=mapping_seed, stochastic=stochastic)
    assert ours.optimal_return == pytest.approx(theirs._optimal_return, abs=1e-15)

    rng = np.random.default_rng(0)
    ours.np_random = np.random.default_rng(1)
    theirs._rng = LegacyNames(np.random.default_rng(1))
    for episode in range(60):
        expected = theirs.reset()
        obs, _ = ours.reset()
        assert np.array_equal(obs, expected.observation)
        for row in range(size):
            # Random walks end at the left: every other episode mostly goes right.
            right = int(theirs._action_mapping[row, theirs._column])
            action = right if episode % 2 and rng.random() < 0.95 else int(rng.integers(2))
            expected = theirs.step(action)
            obs, reward, terminated, truncated, _ = ours.step(action)
            assert np.array_equal(obs, expected.observation)
            assert reward == pytest.approx(expected.reward, abs=1e-15)
            assert terminated == expected.last()
            assert not truncated


def test_only_going_right_all_the_way_pays() -> None:
    env = DeepSea(6, randomize_actions=False)
    totals = []
    for action in (1, 0):
        obs, _ = env.reset()
        assert obs.dtype == np.float32
        assert obs[0, 0] == obs.sum() == 1
        rewards = [env.step(action)[1] for _ in range(6)]
        totals.append(sum(rewards))
    assert totals == pytest.approx([env.optimal_return, 0.0])
    assert env.optimal_return == pytest.approx(0.99)


def test_the_meaning_of_actions_depends_on_the_mapping_seed_alone() -> None:
    def first_rewards(mapping_seed: int, seed: int) -> list[float]:
        env = DeepSea(8, mapping_seed=mapping_seed)
        env.reset(seed=seed)
        return [float(env.step(0)[1]) for _ in range(8)]

    assert first_rewards(1, seed=0) == first_rewards(1, seed=9)
    assert first_rewards(1, seed=0) != first_rewards(2, seed=0)


def test_it_is_registered() -> None:
    env = make_env("bdqn/DeepSea-v0", env_kwargs={"size": 4})
    assert env.observation_space.shape == (4, 4)
