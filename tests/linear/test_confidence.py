"""Confidence sets hold what they promise; the printed radius does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from bdqn.linear import Known, LinUCB, Replicas, play
from bdqn.linear.bounds import Constants, theorem_2
from bdqn.linear.confidence import rho
from bdqn.linear.draws import Draws
from bdqn.linear.families import Coverage, Family, LinearMDP, LinearQ, RandomTabular, instances
from bdqn.linear.regret import certificate, trajectory_regret
from bdqn.linear.statistics import Episodes, Statistics
from support.linear import coverage, linear_agent

DELTA = 0.1


@pytest.mark.parametrize("horizon", [1, 2, 3, 4])
@pytest.mark.parametrize("radius", ["theory", "data"])
def test_the_sets_hold_omega_star(radius: str, horizon: int) -> None:
    """100 instances; the noise is small so that the bias of targets, not the noise, is what is tested."""
    replicas = instances(LinearQ(horizon=horizon, noise=0.02), 100)
    covered = coverage(replicas, LinUCB(radius=radius, delta=DELTA), 60)
    assert covered.all(1).mean() >= 1 - DELTA


@pytest.mark.parametrize("horizon", [1, 2])
def test_the_sets_hold_omega_star_where_noise_decides(horizon: int) -> None:
    """With much noise and hardly any ridge, nothing but sigma's term keeps omega* inside."""
    replicas = instances(LinearQ(horizon=horizon, noise=0.5), 100)
    covered = coverage(replicas, LinUCB(radius="data", ridge=1e-3, delta=DELTA), 60)
    assert covered.all(1).mean() >= 1 - DELTA


FAMILIES = {
    "linear-q": lambda horizon: LinearQ(horizon=horizon),
    "linear-q, little noise": lambda horizon: LinearQ(horizon=horizon, noise=0.0),
    "linear-mdp": lambda horizon: LinearMDP(horizon=horizon),
    "tabular": lambda horizon: RandomTabular(horizon=horizon),
}


@pytest.mark.long
@pytest.mark.parametrize("horizon", [1, 2, 3, 4])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("radius", ["theory", "data"])
def test_the_sets_hold_omega_star_for_long(radius: str, family: str, horizon: int) -> None:
    replicas = instances(FAMILIES[family](horizon), 100)
    covered = coverage(replicas, LinUCB(radius=radius, delta=DELTA), 600)
    assert covered.all(1).mean() >= 1 - DELTA


def test_the_printed_radius_loses_omega_star() -> None:
    """Documents erratum E1: Lemma 1 as printed, which promises that at most 10 % of instances ever fail.

    With values cut to [0, 1] most instances fail at H = 3. As printed, without cutting, also at H = 4.
    The corrected radius, on the same instances, never does.
    """
    for horizon, clip, episodes in ((3, True, 300), (3, False, 100), (4, False, 100)):
        replicas = instances(LinearQ(horizon=horizon, noise=0.02), 12)
        kept = {
            radius: coverage(replicas, LinUCB(radius=radius, delta=DELTA, clip=clip), episodes).all(1).mean()
            for radius in ("paper", "theory", "data")
        }
        assert kept["paper"] < 0.5, (horizon, clip, kept)
        assert kept["theory"] == kept["data"] == 1


@pytest.mark.parametrize("gamma", [1.0, 0.8])
@pytest.mark.parametrize("radius", ["theory", "data"])
@pytest.mark.parametrize("family", [LinearQ(noise=0.02), LinearMDP(states=6, noise=0.02), RandomTabular(noise=0.02)])
def test_values_are_sandwiched_and_regret_is_certified(family: Family, radius: str, gamma: float) -> None:
    """On runs whose sets hold omega*, for every state: V_low <= V* <= V_up, and what each step loses is paid for."""
    if isinstance(family, (LinearQ, LinearMDP)):
        family = replace(family, gamma=gamma)
    replicas = instances(family, 8)
    agent = linear_agent(LinUCB(radius=radius), replicas)
    v_star = replicas.q_star.max(-1)
    rows = np.arange(8)
    regret, certified = np.zeros(8), np.zeros(8)
    for _, (plan, played) in zip(range(80), play(replicas, agent, range(8)), strict=False):
        for h, confidence_set in enumerate(plan.sets):
            assert confidence_set.contains(replicas.omega_star[:, h]).all()
            assert (confidence_set.lower <= v_star[:, h] + 1e-12).all()
            assert (confidence_set.upper >= v_star[:, h] - 1e-12).all()
            x, a = played.states[:, h], played.actions[:, h]
            lost = v_star[rows, h, x] - replicas.q_star[rows, h, x, a]
            assert (lost <= 2 * confidence_set.theta * confidence_set.width[rows, x, a] + 1e-12).all()
        regret += trajectory_regret(replicas, played)
        certified += certificate(plan.sets, played, replicas.gamma)
        assert (regret <= certified).all()
    assert agent.confidence is not None
    if radius == "theory":
        constants = Constants.of(replicas.known, ridge=1.0)
        bound = theorem_2(constants, agent.confidence.largest_rho, 80, DELTA)
        assert (certified <= bound).all()
    assert certified.max() > 10  # or nothing has been tested


def test_the_pessimistic_value_is_below_the_papers_game() -> None:
    """min over the set of max over actions, the paper's pessimism, is a game; its pure strategies give less."""
    replicas = instances(LinearQ(horizon=1, actions=3, noise=0.02), 4)
    agent = linear_agent(LinUCB(clip=False), replicas)
    for _ in zip(range(15), play(replicas, agent, range(4)), strict=False):
        pass
    confidence_set = agent.steps(agent.memory, Draws(range(4), "agent"))[0].set
    assert confidence_set is not None
    for r, x in np.ndindex(4, 8):
        phi, theta = replicas.features[r, 0, x], confidence_set.theta[r]
        covariance = np.linalg.inv(confidence_set.factor[r] @ confidence_set.factor[r].T)

        def lower_bound_of_mixture(free: np.ndarray, phi=phi, theta=theta, covariance=covariance, r=r) -> float:  # type: ignore[no-untyped-def,type-arg]
            mixed = np.append(free, 1 - free.sum()) @ phi
            return float(mixed @ confidence_set.centre[r] - theta * np.sqrt(mixed @ covariance @ mixed))

        simplex = {"type": "ineq", "fun": lambda free: 1 - free.sum()}
        found = minimize(
            lambda free, value=lower_bound_of_mixture: -value(free),
            [1 / 3, 1 / 3],
            bounds=[(0, 1)] * 2,
            constraints=simplex,
        )
        assert confidence_set.lower[r, x] <= -found.fun + 1e-6
        assert -found.fun <= replicas.q_star[r, 0, x].max() + 1e-6  # the game's value is pessimistic too


def test_rho_is_what_its_definition_says() -> None:
    """The sum over episodes, one by one, for the oracle and for max-action; a number is taken as it is."""
    replicas = instances(LinearQ(horizon=2), 2)
    history = []
    agents = {source: linear_agent(LinUCB(rho=source), replicas) for source in ("oracle", "max-action", "2.5")}
    for agent in agents.values():
        played = [step.episodes for _, step in zip(range(20), play(replicas, agent, range(2)), strict=False)]
        history.append(played)
        agent.plan(Draws(range(2), "agent"))
    for (source, agent), played in zip(agents.items(), history, strict=True):
        assert agent.confidence is not None
        for r in range(2):
            largest = 0.0
            for t in range(1, 21):
                rows = [replicas.features[r, 1, e.states[r, 1], e.actions[r, 1]] for e in played[:t]]
                inverse = np.linalg.inv(np.transpose(rows) @ rows + np.eye(4))
                total = 0.0
                for e in played[:t]:
                    norms = [phi @ inverse @ phi for phi in replicas.features[r, 1, e.states[r, 1]]]
                    best = replicas.q_star[r, 1, e.states[r, 1]].argmax()
                    total += norms[best] if source == "oracle" else max(norms)
                largest = max(largest, np.sqrt(total))
            expected = 2.5 if source == "2.5" else largest
            assert agent.confidence.largest_rho[r, 1] == pytest.approx(expected)


def test_rho_is_no_constant_of_the_problem() -> None:
    """E20: Q* is bounded away from zero, but whoever avoids the optimal action has rho^2 = t / lambda."""
    mdp = Coverage().make(np.random.default_rng(0))
    assert mdp.q_star[1].min() >= 0.5
    replicas = Replicas.of([mdp])
    for avoids, limit in ((True, 50 / 0.5), (False, mdp.dim)):
        memory = Statistics(replicas.features)
        action = 0 if avoids else 1
        for _ in range(50):
            memory.add(Episodes(np.zeros((1, 2), int), np.full((1, 2), action), np.zeros((1, 2))))
        width = 1 / np.sqrt(np.where(avoids, 0, 50) + 0.5)
        squared = rho(np.array([[width]]), memory.visits(1))[0] ** 2
        assert squared == pytest.approx(limit) if avoids else squared <= limit


def test_the_data_radius_needs_no_oracle() -> None:
    replicas = instances(LinearQ(), 2)
    known = replicas.known
    blind = Known(known.features, known.gamma, known.sigma, known.feature_norm, known.weight_norm)
    LinUCB(radius="data").make(blind).plan(Draws(range(2), "agent"))
    with pytest.raises(ValueError, match="choose max-action, a number, or the radius data"):
        LinUCB(radius="theory").make(blind).plan(Draws(range(2), "agent"))


@pytest.mark.parametrize("episodes", [60, pytest.param(10_000, marks=pytest.mark.long)])
def test_widths_shrink_as_one_over_the_root_of_t(episodes: int) -> None:
    """|phi_t| theta_t along what is played: its slope in log t is near -1/2 (measured; the lemma's rate)."""
    replicas = instances(LinearQ(horizon=1, noise=0.02), 10)
    agent = linear_agent(LinUCB(), replicas)
    widths = np.empty((10, episodes))
    rows = np.arange(10)
    for t, (plan, played) in zip(range(episodes), play(replicas, agent, range(10)), strict=False):
        widths[:, t] = plan.sets[0].width[rows, played.states[:, 0], played.actions[:, 0]]
    t = np.arange(episodes // 10, episodes)
    slope = np.polyfit(np.log(t), np.log(widths[:, t].mean(0)), 1)[0]
    assert -0.6 < slope < -0.4
