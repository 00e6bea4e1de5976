"""With one-hot features, the sampled backups of bdqn-deep are linear RLSVI: LinPSRL with its own draws as targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bdqn.bayes.noise import Fixed
from bdqn.bayes.posterior import Moments, Prior, fit
from bdqn.bayes.sampled_backups import Transitions, sampled_backups
from bdqn.linear.agents import LinearAgent, linpsrl
from bdqn.linear.boldness import Boldness
from bdqn.linear.draws import Draws
from bdqn.linear.families import RandomTabular
from bdqn.linear.statistics import Episodes
from support.linear import the_same

HORIZON, STATES, ACTIONS, EPISODES, DRAWS = 3, 3, 2, 12, 6_000
PRIOR = Prior(2.0, Fixed(0.5))


def data() -> Episodes:
    """The same few episodes for both; some states and actions are never seen."""
    rng = np.random.default_rng(5)
    shape = (EPISODES, HORIZON)
    return Episodes(rng.integers(STATES, size=shape), rng.integers(ACTIONS, size=shape), rng.random(shape))


def by_rlsvi(gamma: float) -> np.ndarray:
    """Q of the first step under many draws (draws, states, actions)."""
    mdp = RandomTabular(states=STATES, actions=ACTIONS, horizon=HORIZON).make(np.random.default_rng(0))
    known = replace(the_same(mdp, DRAWS).known, gamma=gamma)
    agent = LinearAgent(known, PRIOR, linpsrl("sample", Boldness([1.0], DRAWS)))
    played = data()
    for episode in zip(*played, strict=True):
        agent.observe(Episodes(*(np.broadcast_to(part, (DRAWS, HORIZON)) for part in episode)))
    first = agent.steps(agent.memory, Draws(range(DRAWS), "draws"))[0]
    return first.belief.q(first.act)


def by_backups(gamma: float) -> np.ndarray:
    """The same, with a feature for every step and state."""
    played = data()
    place = np.arange(HORIZON) * STATES + played.states  # (episodes, steps)
    eye = np.eye(HORIZON * STATES)
    after = np.where(np.arange(HORIZON) < HORIZON - 1, np.roll(place, -1, axis=1), 0)
    discount = np.where(np.arange(HORIZON) < HORIZON - 1, gamma, 0.0) * np.ones_like(place)
    rows = Transitions(
        eye[place.ravel()],
        np.ones(place.size, np.int64),
        played.actions.ravel(),
        played.rewards.ravel().astype(np.float32),
        discount.ravel().astype(np.float32),
        eye[after.ravel()],
    )
    moments = Moments.zero(HORIZON * STATES, (ACTIONS,))
    moments.add_by_action(rows.x, rows.action, rows.reward)
    _, draws = sampled_backups(fit(moments, PRIOR), rows, np.random.default_rng(1), DRAWS, sweeps=HORIZON)
    return np.moveaxis(draws[:, :, :STATES], -1, 1)  # (draws, states, actions)


def test_both_have_the_same_distribution() -> None:
    ours, theirs = (np.sort(q(0.9).reshape(DRAWS, -1), axis=0) for q in (by_backups, by_rlsvi))
    # Kolmogorov and Smirnov's distance: 1.95 / sqrt(n / 2) is passed once in a thousand times by chance.
    for mine, other in zip(ours.T, theirs.T, strict=True):
        grid = np.concatenate([mine, other])
        distance = np.abs(np.searchsorted(mine, grid, "right") - np.searchsorted(other, grid, "right")).max() / DRAWS
        assert distance < 1.95 * np.sqrt(2 / DRAWS)


def test_both_have_the_same_correlations() -> None:
    ours, theirs = (np.cov(q(0.9).reshape(DRAWS, -1).T) for q in (by_backups, by_rlsvi))
    scale = np.sqrt(np.outer(np.diag(theirs), np.diag(theirs)))
    np.testing.assert_allclose(ours / scale, theirs / scale, atol=6 / np.sqrt(DRAWS))


def test_plain_draws_are_told_apart() -> None:
    """Guards the two tests above: what is not handed down changes the spread of the first step."""
    deep, plain = by_rlsvi(0.9), by_rlsvi(0.0)
    seen = plain.std(0) < 0.9 * plain.std(0).max()  # elsewhere both have the prior
    assert (deep.std(0)[seen] > 1.2 * plain.std(0)[seen]).any()
