"""LinPSRL with several inflations: the deep agent's rule, and the agent before if there is one inflation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bdqn.linear import LinPSRL, Replicas, play
from bdqn.linear.agents import LinearAgent
from bdqn.linear.boldness import Boldness
from bdqn.linear.continuous import FeatureAgent
from bdqn.linear.draws import Draws
from bdqn.linear.families import Bandit, LinearQ, RiverSwim, instances
from bdqn.linear.planning import Belief, Guess
from bdqn.qlearning.boldness import Bold
from bdqn.qlearning.boldness import Boldness as DeepBoldness
from support.linear import linear_agent, the_same

Array = NDArray[np.float64]


def kinds_chosen(boldness: Boldness, episodes: int, returns_of: Callable[[Array, int], Array]) -> Array:
    """Play with returns by kind and episode; the kinds that acted. (episodes, R)"""
    draws, kinds = Draws(range(len(boldness.kinds)), "agent"), []
    for t in range(episodes):
        boldness.choose(draws)
        kinds.append(boldness.kinds)
        boldness.add(returns_of(boldness.kinds, t))
    return np.array(kinds)


def plain_draw(belief: Belief, draws: Draws) -> tuple[Guess, Guess]:
    """LinPSRL without boldness."""
    drawn = Guess(belief.posterior.at(draws.normal(belief.posterior.dim)))
    return drawn, drawn


def actions_of(replicas: Replicas, agent: LinearAgent, episodes: int) -> Array:
    return np.array([p.episodes.actions for p in islice(play(replicas, agent, range(len(replicas))), episodes)])


def test_with_one_inflation_it_is_the_agent_before() -> None:
    replicas = instances(LinearQ(horizon=3), 4)
    bold = linear_agent(LinPSRL(inflation="1"), replicas)
    plain = LinearAgent(replicas.known, bold.prior, plain_draw)
    assert (actions_of(replicas, bold, 60) == actions_of(replicas, plain, 60)).all()


def test_with_two_inflations_it_is_the_deep_agents_rule() -> None:
    """Same returns, same random numbers: the same kinds, episode by episode."""

    class Recorded(np.random.Generator):
        """Gives the number that the linear rule used for the same episode."""

        def __init__(self) -> None:
            super().__init__(np.random.PCG64(0))
            self.now = 0.0

        def random(self) -> float:  # type: ignore[override]
            return self.now

    class Numbers(Draws):
        def uniform(self, *shape: int) -> Array:
            rng.now = float(np.random.default_rng(episode).random())
            return np.full((1, *shape), rng.now)

    rng, draws = Recorded(), Numbers([0], "agent")
    rule = Bold(decay=0.5, decay_unlike=0.5, leaves_loops=False)
    deep, linear = DeepBoldness(rule, 0.9, 1, rng), Boldness([0.1, 10.0], 1)
    nature = np.random.default_rng(1)
    kinds = []
    for episode in range(400):
        linear.choose(draws)
        if episode:
            assert linear.kinds[0] == deep.kinds[0], episode
        kinds.append(int(linear.kinds[0]))
        # Nothing for a while, then bold episodes pay, then modest ones do.
        paid = 0.0 if episode < 20 else float(kinds[-1] == (episode < 200)) + nature.random()
        linear.add(np.array([paid]))
        rng.now = float(np.random.default_rng(episode + 1).random())  # the deep rule picks at an episode's end
        deep.add(np.array([paid]), np.array([True]))
    assert np.mean(kinds[50:200]) > 0.7
    assert np.mean(kinds[250:]) < 0.3


def test_the_boldest_acts_until_returns_differ() -> None:
    kinds = kinds_chosen(Boldness([3.0, 0.3, 1.0], 2), 30, lambda kinds, t: np.zeros(2))
    assert kinds[:3, 0].tolist() == [2, 1, 0]  # each is tried once, the boldest first
    assert (kinds[3:] == 2).all()


def test_the_others_get_an_ever_smaller_share() -> None:
    """About 2 sqrt(n) of n episodes, evenly among them."""
    kinds = kinds_chosen(Boldness([0.1, 1.0, 10.0], 50), 2_500, lambda kinds, t: (kinds == 1) + 0.5)
    counts = np.array([(kinds == k).sum(0).mean() for k in range(3)])
    assert counts[[0, 2]].sum() == pytest.approx(2 * np.sqrt(2_500), rel=0.1)
    assert counts[0] == pytest.approx(counts[2], rel=0.15)


def test_records_forget() -> None:
    """Who was better at first is found out when that has changed."""
    kinds = kinds_chosen(Boldness([0.1, 10.0], 20), 600, lambda kinds, t: 1.0 * (kinds == (t < 100)))
    assert (kinds[20:100] == 1).mean() > 0.7
    assert (kinds[-200:] == 0).mean() > 0.9


@pytest.mark.parametrize("target", ["sample", "mean"])
def test_an_inflation_is_a_belief_in_larger_weights_and_noise(target: Any) -> None:
    """docs/theory.md: prior and noise three times as wide leave the mean, and widen draws threefold."""
    replicas = instances(LinearQ(horizon=3, noise=0.2), 4)
    inflated = LinPSRL(target, noise_std=0.2, prior_var=0.5, inflation="3")
    believed = LinPSRL(target, noise_std=3 * 0.2, prior_var=9 * 0.5)
    actions = [actions_of(replicas, linear_agent(settings, replicas), 60) for settings in (inflated, believed)]
    assert (actions[0] == actions[1]).all()


def test_draws_are_as_wide_as_the_inflation_that_acts() -> None:
    replicas = instances(Bandit(states=3), 3)
    plain, bold = (linear_agent(LinPSRL(inflation=text), replicas) for text in ("1", "0.5/4"))
    assert bold.boldness is not None
    for inflation in (4.0, 0.5):
        draws, same = Draws(range(3), "agent"), Draws(range(3), "agent")
        same.uniform(1)  # the number that the choice takes
        drawn = bold.steps(bold.memory, draws)[0].act.weights
        as_posterior = plain.steps(plain.memory, same)[0].act.weights
        assert bold.boldness.inflation.tolist() == [inflation] * 3
        np.testing.assert_allclose(drawn, inflation * as_posterior)  # the prior's mean is zero
        bold.observe_returns(np.zeros(3))


def test_a_replica_does_not_depend_on_its_neighbours() -> None:
    mdp = RiverSwim(states=3, horizon=6).make(np.random.default_rng(0))
    few, many = the_same(mdp, 2), the_same(mdp, 5)
    settings = LinPSRL(inflation="0.1/1/10")
    alone, together = (actions_of(r, linear_agent(settings, r), 80) for r in (few, many))
    assert (alone == together[:, :2]).all()


def test_bold_draws_are_optimistic_on_average() -> None:
    """The best value under a draw grows with the inflation, in the mean: a maximum is convex (docs/theory.md)."""
    replicas = the_same(Bandit(states=3).make(np.random.default_rng(0)), 4_000)
    v_star = replicas.q_star[0, 0].max(-1)
    means = []
    for inflation in ("0.1", "0.5", "1", "2", "5"):
        agent = linear_agent(LinPSRL(inflation=inflation), replicas)
        step = agent.steps(agent.memory, Draws(range(4_000), "agent"))[0]
        means.append(step.belief.value(step.act).mean(0))  # (S,)
    assert (np.diff(means, axis=0) > 0).all()
    assert (means[-1] > v_star).all()


def test_a_feature_function_may_be_bold_too() -> None:
    """Returns are discounted, and reach the records."""
    settings = LinPSRL(inflation="0.5/2", noise_std=0.1)
    agent = FeatureAgent(settings, lambda h, place: np.eye(2), horizon=2, actions=2, dim=2, sigma=0.1, gamma=0.5)
    for reward in (1.0, 3.0):
        agent.begin()
        phi = agent.features(0, None)
        agent.learn([(phi, 0, reward), (phi, 1, 2 * reward)])
    assert agent._agent.boldness is not None
    assert agent._agent.boldness.records.tolist() == [[6.0, 2.0]]  # the bold one acted first
