"""A user's feature function instead of a table of states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bdqn.linear import PSRL, LinPSRL, LinUCB, LSVIEpsilon
from bdqn.linear.continuous import FeatureAgent, play
from bdqn.linear.families import LinearQ, instances
from bdqn.linear.gym_view import MDPEnv
from bdqn.linear.statistics import Episodes
from support.linear import linear_agent


class Walk:
    """A point on a line, two steps left or right; being near 1 at the end pays."""

    def reset(self, *, seed: int | None = None) -> tuple[float, dict[str, Any]]:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.place, self.steps = self.rng.uniform(-0.2, 0.2), 0
        return self.place, {}

    def step(self, action: int) -> tuple[float, float, bool, bool, dict[str, Any]]:
        self.place += 0.4 if action else -0.4
        self.steps += 1
        reward = max(0.0, 1 - abs(1 - self.place)) if self.steps == 2 else 0.0
        return self.place, reward, self.steps == 2, False, {}


def walk_features(h: int, place: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A polynomial in the place for each action; L = 1 for places up to 1 away."""
    powers = np.array([1.0, place, place**2]) / np.sqrt(3)
    return np.kron(np.eye(2), powers)


def walker(settings: Any, **changes: Any) -> FeatureAgent:
    options: dict[str, Any] = {"horizon": 2, "actions": 2, "dim": 6, "sigma": 0.1, "weight_norm": 2.0}
    return FeatureAgent(settings, walk_features, **(options | changes))


@pytest.mark.parametrize("settings", [LinPSRL(), LinPSRL(target="pessimistic"), LinUCB(radius="data", scale=0.1)])
def test_agents_learn_to_walk(settings: Any) -> None:
    returns = play(Walk(), walker(settings), 120)
    assert returns[-20:].mean() > 0.75  # 0.8 is the best


def test_counting_and_remembering_states_are_the_same_agent() -> None:
    """A finite problem through its Gymnasium view: regressions and radii equal those of the counting agent."""
    replicas = instances(LinearQ(horizon=3), 1)
    known, mdp = replicas.known, replicas.mdps[0]
    remembering = FeatureAgent(
        LinUCB(radius="data"),
        lambda h, observation: mdp.features[h, int(observation) % mdp.states],
        horizon=3,
        actions=3,
        dim=4,
        sigma=known.sigma,
        weight_norm=known.weight_norm,
        feature_norm=known.feature_norm,
    )
    env = MDPEnv(mdp)
    counting = linear_agent(LinUCB(radius="data"), replicas)
    memory, draws = remembering._memory, remembering._draws
    for t in range(40):
        remembering.begin()
        observation, _ = env.reset(seed=0 if t == 0 else None)
        episode, columns = [], []
        for h in range(3):
            state = int(observation) % mdp.states
            phi = remembering.features(h, observation)
            action = remembering.act(h, phi)
            observation, reward, _, _, _ = env.step(action)
            episode.append((phi, action, reward))
            columns.append((state, action, reward))
        remembering.learn(episode)
        states, actions, rewards = (np.array([column]) for column in zip(*columns, strict=True))
        counting.observe(Episodes(states, actions, rewards))
    ours = counting.steps(counting.memory, draws)
    theirs = remembering._agent.steps(memory, draws)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.belief.posterior.mean, b.belief.posterior.mean, atol=1e-10)
        np.testing.assert_allclose(a.belief.theta, b.belief.theta, rtol=1e-10)


def test_an_episode_may_end_early() -> None:
    agent = walker(LSVIEpsilon(ridge=1e-6))
    agent.begin()
    phi = walk_features(0, 0.5)
    for _ in range(5):
        agent.learn([(phi, 1, 0.7)])  # ended at once: no value ahead
        agent.learn([(phi, 0, 0.0), (phi, 1, 0.4)])
    agent.begin()
    first = agent._plan[0].belief
    values = phi @ first.posterior.mean[0]
    np.testing.assert_allclose(values, [0.4, 0.7], atol=1e-5)


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        (lambda h, x: np.ones((2, 5)), r"must return \(actions, d\) = \(2, 6\), not \(2, 5\)"),
        (lambda h, x: np.full((2, 6), np.nan), "returned NaN or infinity at step 1"),
        (lambda h, x: np.ones((2, 6)), r"norm 2.449, above feature_norm \(L\): scale features"),
    ],
)
def test_wrong_features_are_refused(features: Any, sentence: str) -> None:
    agent = FeatureAgent(LinPSRL(), features, horizon=2, actions=2, dim=6, sigma=0.1)
    with pytest.raises(ValueError, match=sentence):
        play(Walk(), agent, 1)


def test_other_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="horizon must be at least 1, not 0"):
        walker(LinPSRL(), horizon=0)
    with pytest.raises(TypeError, match="choose a linear agent"):
        walker(PSRL())
    with pytest.raises(ValueError, match="rewards must be finite"):
        walker(LinPSRL()).learn([(walk_features(0, 0.0), 0, float("nan"))])
