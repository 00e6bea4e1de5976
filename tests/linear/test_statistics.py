"""Sums instead of a history: the same regressions, whatever the number of episodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdqn.bayes.posterior import Moments, Prior, fit
from bdqn.linear import AGENTS, LinPSRL, LinUCB, play
from bdqn.linear.confidence import log_determinant
from bdqn.linear.continuous import VisitedStates
from bdqn.linear.draws import Draws
from bdqn.linear.families import LinearQ, RandomTabular, instances
from bdqn.linear.statistics import Episodes, Statistics
from support.linear import linear_agent


@pytest.mark.parametrize("episodes", [200, pytest.param(10_000, marks=pytest.mark.long)])
def test_sums_give_what_refitting_the_whole_history_gives(episodes: int) -> None:
    """Sufficient statistics, the explicit history in bdqn's regression, and a fresh least-squares solve."""
    ridge = 0.5
    replicas = instances(LinearQ(horizon=3, gamma=0.9), 2)
    agent = linear_agent(LinUCB(ridge=ridge), replicas)
    history = [played.episodes for _, played in zip(range(episodes), play(replicas, agent, range(2)), strict=False)]
    states, actions, rewards = (np.stack(columns, axis=1) for columns in zip(*history, strict=True))  # (R, T, H)
    steps = agent.steps(agent.memory, Draws(range(2), "agent"))
    for r in range(2):
        ahead = np.zeros(8)
        for h in reversed(range(3)):
            rows = replicas.features[r, h, states[r, :, h], actions[r, :, h]]
            targets = rewards[r, :, h] + (0.9 * ahead[states[r, :, h + 1]] if h < 2 else 0)
            belief, _, confidence_set = steps[h]
            assert confidence_set is not None
            refitted = fit(Moments.zero(4).add(rows, targets), Prior(var=1 / ridge))
            np.testing.assert_allclose(belief.posterior.mean[r], refitted.mean, atol=1e-9)
            augmented = np.vstack([rows, np.sqrt(ridge) * np.eye(4)])
            solved = np.linalg.lstsq(augmented, np.append(targets, np.zeros(4)), rcond=None)[0]
            np.testing.assert_allclose(belief.posterior.mean[r], solved, atol=1e-9)
            precision = rows.T @ rows + ridge * np.eye(4)
            expected = np.linalg.slogdet(precision)[1]
            assert log_determinant(belief.posterior)[r] == pytest.approx(expected, abs=1e-9)
            ahead = confidence_set.lower[r]


@given(seed=st.integers(0, 2**32), episodes=st.integers(0, 30))
@settings(max_examples=25, deadline=None)
def test_moments_are_those_of_the_targets(seed: int, episodes: int) -> None:
    """All four sums, by state counted and by state met, against the definition."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((1, 2, 5, 3, 4))
    ahead = rng.standard_normal((1, 5))
    counted, met = Statistics(features), VisitedStates(2, 3, 4)
    direct = [Moments.zero(4, (1,)) for _ in range(2)]
    second_states = []
    for t in range(episodes):
        states, actions = rng.integers(5, size=(1, 2)), rng.integers(3, size=(1, 2))
        rewards = rng.standard_normal((1, 2))
        counted.add(Episodes(states, actions, rewards))
        second_states.append(states[0, 1])
        for h in range(2):
            phi = features[0, h, states[0, h]]
            met.at[h].add(phi, actions[0, h], rewards[0, h], t if h == 0 else -1)
            target = rewards[0, h] + (ahead[0, states[0, 1]] if h == 0 else 0.0)
            direct[h] = direct[h].add(phi[actions[0, h]][None, None], [[target]])
    for memory, values in ((counted, ahead), (met, ahead[:, np.array(second_states, int)])):
        assert memory.episodes == episodes
        for h, given_ahead in ((0, values), (1, None)):
            found = memory.moments(h, given_ahead)
            for name in ("gram", "cross", "squares", "count"):
                np.testing.assert_allclose(getattr(found, name), getattr(direct[h], name), atol=1e-10)
            gram = found.gram[0]
            assert (gram == gram.T).all()
            assert np.linalg.eigvalsh(gram + 0.01 * np.eye(4))[0] > 0


def test_tabular_widths_count_visits() -> None:
    replicas = instances(RandomTabular(states=4, horizon=2), 3)
    agent = linear_agent(LinUCB(ridge=0.3), replicas)
    counts = np.zeros((3, 2, 4, 2))
    for _, played in zip(range(100), play(replicas, agent, range(3)), strict=False):
        rows, steps = np.ogrid[:3, :2]
        counts[rows, steps, played.episodes.states, played.episodes.actions] += 1
    for h, step in enumerate(agent.steps(agent.memory, Draws(range(3), "agent"))):
        np.testing.assert_allclose(step.belief.width, 1 / np.sqrt(counts[:, h] + 0.3), rtol=1e-12)


@pytest.mark.parametrize("name", AGENTS)
def test_a_replica_does_not_depend_on_its_neighbours(name: str) -> None:
    """Seed 3 alone plays as seed 3 among five; same seed same actions, different seed different ones."""
    five = instances(LinearQ(horizon=2), 5)
    alone = instances(LinearQ(horizon=2), 1, first=3)
    known = five.known
    alone.__dict__["known"] = type(known)(
        alone.features, known.gamma, known.sigma, known.feature_norm, known.weight_norm, known.optimal_actions[3:4]
    )
    actions = []
    for replicas, seeds in ((five, range(5)), (alone, [3]), (alone, [4])):
        agent = AGENTS[name]().make(replicas.known)
        played = zip(range(40), play(replicas, agent, seeds), strict=False)
        actions.append(np.array([step.episodes.actions for _, step in played]))
    assert (actions[0][:, 3:4] == actions[1]).all()
    assert (actions[1] != actions[2]).any()


def test_draws_differ_between_episodes_and_steps() -> None:
    replicas = instances(LinearQ(horizon=2), 1)
    agent, draws = linear_agent(LinPSRL(), replicas), Draws([0], "agent")
    first, second = (agent.steps(agent.memory, draws) for _ in range(2))
    weights = [step.act.weights[0] for step in (*first, *second)]
    assert len({tuple(row) for row in weights}) == 4
