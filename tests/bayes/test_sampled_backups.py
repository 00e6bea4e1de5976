"""Sampled backups: a draw carries what is uncertain later back to where the decision is."""

from __future__ import annotations

import runpy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import bdqn
from bdqn.agents import AGENTS
from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Fixed, Moments, Posterior, Prior, fit
from bdqn.bayes.sampled_backups import BackedUpWeights, Transitions, back_up, joined, sampled_backups
from bdqn.config.settings import SettingError

GAMMA, NOISE, PRIOR, VISITS = 0.9, 0.5, 2.0, 4


def chain(length: int, reward: float = 1.0) -> Transitions:
    """One action, states in a row, each visited a few times; the last pays and ends."""
    states = np.repeat(np.arange(length), VISITS)
    x = np.eye(length)[states]
    last = states == length - 1
    next_x = np.eye(length + 1, length)[states + 1]
    reward_of = np.where(last, reward, 0.0).astype(np.float32)
    once = np.ones(len(x), np.int64)
    return Transitions(x, once, 0 * once, reward_of, np.where(last, 0, GAMMA).astype(np.float32), next_x)


def belief(transitions: Transitions, num_actions: int = 1) -> Posterior:
    """The posterior whose Gram matrix these rows make; its own mean has no part in a draw that is backed up in full."""
    moments = Moments.zero(transitions.x.shape[1], (num_actions,))
    moments.add_by_action(transitions.x, transitions.action, transitions.reward)
    return fit(moments, Prior(PRIOR, Fixed(NOISE)))


def closed_form(length: int, reward: float = 1.0) -> tuple[float, float]:
    """Mean and variance of Q at the start: W_i = n y_i / (n + ridge) + u_i, y_i = gamma W_(i+1), u_i independent."""
    ridge = NOISE / PRIOR
    shrink, own = VISITS / (VISITS + ridge), NOISE / (VISITS + ridge)
    mean, variance = shrink * reward, own
    for _ in range(length - 1):
        mean, variance = shrink * GAMMA * mean, (shrink * GAMMA) ** 2 * variance + own
    return mean, variance


@pytest.mark.parametrize("length", [2, 3, 10])
def test_variance_at_the_start_of_a_chain_is_the_closed_form(length: int) -> None:
    count = 20_000
    rows = chain(length)
    centre, draws = sampled_backups(belief(rows), rows, np.random.default_rng(0), count, sweeps=length)
    mean, variance = closed_form(length)
    at_start = draws[:, 0, 0]
    assert centre[0, 0] == pytest.approx(mean)  # with no noise: the posterior's own mean is 0 there
    assert at_start.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / count))
    assert at_start.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / count))


def test_without_backups_the_start_knows_nothing_of_what_is_uncertain_later() -> None:
    rows = chain(10)
    _, plain = sampled_backups(belief(rows), rows, np.random.default_rng(0), 20_000, sweeps=0)
    own = NOISE / (VISITS + NOISE / PRIOR)
    assert plain[:, 0, 0].var() == pytest.approx(own, rel=0.05)
    assert closed_form(10)[1] > 3 * own  # so the test above tells the two apart


def test_each_sweep_looks_one_step_further() -> None:
    """With an unvisited state at the end, its prior reaches the start of the chain after as many sweeps as steps."""
    rows = chain(4)
    known = belief(rows)
    spread = [
        sampled_backups(known, rows, np.random.default_rng(1), 20_000, sweeps)[1][:, 0, 0].var() for sweeps in range(5)
    ]
    assert all(more > 1.02 * less for less, more in pairwise(spread[:4]))
    assert spread[4] == pytest.approx(spread[3], rel=1e-5)  # nothing is further away than that


def test_the_documented_figure_shows_that_the_start_of_a_chain_knows_of_its_end() -> None:
    """Drawn from the left panel's code: spread along the chain, plain and backed up."""
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "deep_uncertainty.py"))
    axes = Figure().subplots()
    example["draw_chain"](axes)
    plain, backed_up = (line.get_ydata() for line in axes.lines)
    assert plain[0] < 0.1 * plain[-1]
    assert backed_up[0] > 0.5 * backed_up[-1]


def test_a_draw_takes_its_own_best_action_where_it_leads() -> None:
    """Two actions at the second state: the first state's value is the larger one of the same draw."""
    eye = np.eye(2)
    rows = Transitions(
        np.repeat(eye[[0, 1, 1]], 50, axis=0),
        np.ones(150, np.int64),
        np.repeat([0, 0, 1], 50),
        np.repeat(np.array([0, 1, 1], np.float32), 50),
        np.repeat(np.array([1, 0, 0], np.float32), 50),
        np.repeat(np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), 50, axis=0),
    )
    _, draws = sampled_backups(belief(rows, 2), rows, np.random.default_rng(0), 500, sweeps=3)
    shrink = 50 / (50 + NOISE / PRIOR)
    own = draws[:, 0, 0] - shrink * draws[:, :, 1].max(1)  # what is left is the perturbation at the first state
    assert own.var() == pytest.approx(NOISE / (50 + NOISE / PRIOR), rel=0.2)
    assert abs(np.corrcoef(own, draws[:, :, 1].max(1))[0, 1]) < 0.15


def test_a_problem_whose_unmasked_optimum_is_forbidden_is_solved_exactly() -> None:
    """A corridor of four places; action 1 goes on, and pays 1 at the end; action 2 pays 5, in the first place only."""
    states = np.array([0, 0, 1, 2, 3])
    action = np.array([2, 1, 1, 1, 1])
    ends = np.array([True, False, False, False, True])
    # Features: the place, and a constant. The prize's weight is on the constant: elsewhere it seems as near as here.
    x = np.hstack([np.eye(4)[states], np.ones((5, 1))])
    next_x = np.hstack([np.eye(4)[np.minimum(states + 1, 3)], np.ones((5, 1))]).astype(np.float32)
    forbids_the_prize = np.array([True, True, False])
    rows = Transitions(
        x,
        np.full(5, 10**6),
        action,
        np.array([5, 0, 0, 0, 1], np.float32),
        np.where(ends, 0, np.float32(GAMMA)),
        next_x,
        next_allowed=np.where(ends[:, None], True, forbids_the_prize),
    )
    moments = Moments.zero(5, (3,))
    moments.add_by_action(x, action, rows.reward, rows.count)
    posterior = fit(moments, Prior(PRIOR, Fixed(NOISE)))
    masked, _ = sampled_backups(posterior, rows, np.random.default_rng(0), 1, sweeps=5)
    np.testing.assert_allclose((masked @ x.T)[1, 1:], [GAMMA**3, GAMMA**2, GAMMA, 1], atol=1e-4)
    unmasked, _ = sampled_backups(posterior, replace(rows, next_allowed=None), np.random.default_rng(0), 1, sweeps=5)
    assert (unmasked @ x.T)[1, 1] > 2  # it would expect the prize


def test_values_stay_within_their_bound() -> None:
    """A loop that pays nothing, with gamma 1 and a feature that grows: it would raise its own targets for ever."""
    grows = Transitions(
        np.ones((10, 1)),
        np.ones(10, np.int64),
        np.zeros(10, np.int64),
        np.zeros(10, np.float32),
        np.ones(10, np.float32),
        np.full((10, 1), 2.0),
    )
    known = belief(grows)
    free, held = (
        np.abs(sampled_backups(known, grows, np.random.default_rng(0), 100, 30, beyond=beyond)[1]).max()
        for beyond in (np.inf, 3.0)
    )
    assert free > 1e6
    assert held < 5.0


def test_the_mean_stays_within_the_range_of_the_regressions_own_values() -> None:
    """A loop that pays, with a feature that grows: what room the draws have is none of the mean's."""
    pays = Transitions(
        np.ones((10, 1)),
        np.ones(10, np.int64),
        np.zeros(10, np.int64),
        np.ones(10, np.float32),
        np.ones(10, np.float32),
        np.full((10, 1), 2.0),
    )
    known = belief(pays)
    mean, draws = sampled_backups(known, pays, np.random.default_rng(0), 10, 30, beyond=np.inf)
    assert known.mean.item() < mean.item() <= 1 + 2 * known.mean.item()
    assert np.abs(draws).max() > 1e6
    bounded, _ = sampled_backups(known, replace(pays, returns=(0.0, 0.5)), np.random.default_rng(0), 10, 30)
    assert known.mean.item() > 0.9
    assert bounded.item() == pytest.approx(1.5, rel=0.1)  # what is paid, and the most that was ever returned


def test_sweeps_end_where_values_have_settled() -> None:
    rows = chain(4)
    known = belief(rows)
    settled, all_of_them, too_few = (BackedUpWeights(known, known.mean[None], np.zeros(1)) for _ in range(3))
    sweeps: list[int] = []
    settled.take = lambda cross, take=settled.take: (sweeps.append(1), take(cross))[1]  # type: ignore[method-assign]
    back_up([settled], rows, 500, tolerance=1e-4)
    back_up([all_of_them], rows, 500)
    back_up([too_few], rows, 1)
    assert 1 < len(sweeps) < 50
    assert settled.weights == pytest.approx(all_of_them.weights, rel=1e-3)
    assert settled.weights != pytest.approx(too_few.weights, rel=1e-3)


def test_rows_may_come_in_any_order_and_in_pieces() -> None:
    rng = np.random.default_rng(2)
    n, d = 60, 4
    whole = Transitions(
        rng.normal(size=(n, d)),
        np.ones(n, np.int64),
        rng.integers(3, size=n),
        rng.normal(size=n).astype(np.float32),
        np.full(n, 0.5, np.float32),
        rng.normal(size=(n, d)),
    )
    order = rng.permutation(n)
    pieces = [Transitions(*(part[i] for part in whole.columns.values())) for i in np.split(order, 3)]
    known = belief(whole, 3)
    one = sampled_backups(known, whole, np.random.default_rng(0), 5, 6)
    other = sampled_backups(known, joined(pieces), np.random.default_rng(0), 5, 6)
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_row_that_stands_for_several_counts_as_often() -> None:
    rng = np.random.default_rng(3)
    n, d = 40, 4
    x, next_x = rng.normal(size=(2, n, d))
    count, action = rng.integers(1, 50, size=n), rng.integers(2, size=n)
    reward, discount = rng.normal(size=n).astype(np.float32), np.full(n, 0.5, np.float32)
    merged = Transitions(x, count, action, reward, discount, next_x)
    parts = (np.repeat(part, count, axis=0) for part in merged.columns.values())
    spelled_out = replace(Transitions(*parts), count=np.ones(count.sum(), np.int64))
    known = belief(spelled_out, 2)
    one, other = (sampled_backups(known, rows, np.random.default_rng(0), 5, 6) for rows in (merged, spelled_out))
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def by_hand(posterior: Posterior, rows: Transitions, weights: Array, sweeps: int) -> Array:
    """The definition, draw by draw and action by action; values are unbounded."""
    perturbation = weights - posterior.mean
    for _ in range(sweeps):
        q = np.einsum("md,cad->mca", rows.next_x, weights)
        assert rows.next_allowed is not None
        value = np.where(rows.next_allowed[:, None], q, -np.inf).max(2)
        target = rows.reward[:, None] + rows.discount[:, None] * value
        fitted = np.empty_like(weights)
        for action, factor in enumerate(posterior.factor):
            own = rows.action == action
            cross = rows.x[own].T @ (rows.count[own, None] * target[own])
            fitted[:, action] = np.linalg.solve(factor @ factor.T, cross).T
        weights = fitted + perturbation
    return weights


@pytest.mark.parametrize("n", [20, 100])  # fewer rows than actions times regressors, and more
def test_backups_are_their_definition_whichever_way_they_are_computed(n: int) -> None:
    """Also where equal next observations are held once, and regressors that are always zero are left off."""
    rng = np.random.default_rng(4)
    part, dim, num_actions = np.array([0, 2, 3, 5, 6, 7, 8, 9]), 10, 3
    kept = Transitions(
        rng.normal(size=(n, len(part))),
        rng.integers(1, 50, size=n),
        rng.integers(num_actions, size=n),
        rng.normal(size=n).astype(np.float32),
        np.full(n, 0.3, np.float32),
        rng.normal(size=(7, len(part))).astype(np.float32),
        next_allowed=np.repeat([[True, True, True], [True, False, True]], [4, 3], axis=0),
        leads_to=rng.integers(7, size=n),
        part=part,
    )
    x, next_x = np.zeros((n, dim)), np.zeros((n, dim), np.float32)
    assert kept.next_allowed is not None
    assert kept.leads_to is not None
    x[:, part], next_x[:, part] = kept.x, kept.next_x[kept.leads_to]
    allowed = kept.next_allowed[kept.leads_to]
    spelled_out = replace(kept, x=x, next_x=next_x, next_allowed=allowed, leads_to=None, part=None)
    moments = Moments.zero(dim, (num_actions,))
    moments.add_by_action(x, kept.action, kept.reward, kept.count)
    known = fit(moments, Prior(PRIOR, Fixed(NOISE)))
    weights = known.sample(rng, 6)
    expected = by_hand(known, spelled_out, weights, 5)
    for rows in (kept, spelled_out):
        one, others = (
            BackedUpWeights(known, w, np.full(len(w), np.inf), rows.part) for w in (weights[:2], weights[2:])
        )
        back_up([one, others], rows, 5)
        ours = np.concatenate([one.weights, others.weights])
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_the_target_networks_prior_features_serve_the_online_network_too() -> None:
    """They are frozen, so computing them once per batch of next observations is enough."""
    agent = learner(prior_features=32).learn(100).agent
    agent.update()  # the two networks differ
    obs = agent.tensor(agent.replay.sample(16, np.random.default_rng(0)).next_obs)
    with torch.no_grad():
        phi_target = agent.target.features(obs)
        assert torch.equal(agent.online.features(obs, like=phi_target), agent.online.features(obs))
        assert not torch.equal(phi_target, agent.online.features(obs))


# --- the agent --------------------------------------------------------------------------------------------------

TINY = {
    "n_steps": 1,
    "learning_starts": 50,
    "features": 8,
    "posterior_update_interval": 40,
    "target_update_interval": 40,
}


def learner(**settings: Any) -> bdqn.Learner:
    return bdqn.make("bdqn-deep", "bdqn/DeepSea-v0", env_kwargs={"size": 4}, **TINY, **settings)


def test_each_change_can_be_switched_off() -> None:
    """Without both, it is Bayesian DQN: the same weights after the same decisions."""
    plain = bdqn.make("bdqn", "bdqn/DeepSea-v0", env_kwargs={"size": 4}, **TINY).learn(200)
    off = learner(prior_features=0, backup_sweeps=0).learn(200)
    assert np.array_equal(off.agent.online.head.weights, plain.agent.online.head.weights)
    for settings in ({"prior_features": 0}, {"backup_sweeps": 0}):
        one = learner(**settings).learn(200)
        assert one.agent.online.head.fitted


def test_gradients_reach_the_learned_features_only() -> None:
    agent = learner(prior_features=32).learn(100).agent
    before = {name: value.clone() for name, value in agent.online.prior.state_dict().items()}
    for _ in range(5):
        agent.update()
    assert before, "the frozen features are part of what is saved"
    for name, value in agent.online.prior.state_dict().items():
        assert (value == before[name]).all(), name
    assert agent.online.head.dim == 8 + 32 + 1


def test_what_is_paid_at_the_end_counts_at_the_start_after_one_refit() -> None:
    """A mean that is fitted once per refit would carry it back by a single step, and greedy actions would miss it."""
    trained = learner(prior_features=64, noise_var=0.01, prior_var=1.0, reward_scaling=False, backup_sweeps=4)
    agent = trained.learn(200).agent
    with torch.no_grad():
        agent.online.head.weights.zero_()
        agent.target.head.weights.zero_()
        agent.targets.sync()
        agent.fit_last_layer()
    start = np.zeros((4, 4), np.float32)
    start[0, 0] = 1.0
    assert trained.q_posterior(start).mean.max() > 0.5
    assert torch.equal(agent.target.head.weights, agent.online.head.weights)  # which the next targets are made with


def test_draws_are_picked_from_those_that_the_refit_backed_up() -> None:
    head = learner(backup_draws=3).learn(200).agent.online.head
    draws = head.draw(np.random.default_rng(0), 200)
    assert {draw.numpy().tobytes() for draw in draws} == {draw.numpy().tobytes() for draw in head.pool}
    assert len({draw.numpy().tobytes() for draw in head.pool}) == 3


def test_the_spread_and_the_best_action_are_those_of_the_draws_that_act() -> None:
    """Not of the regression alone, which knows nothing of what is uncertain later; in the environment's rewards."""
    deep = learner(backup_draws=7, reward_scaling=False).learn(200)
    deep.agent.targets.reward_unit = 4.0
    states = np.eye(16, dtype=np.float32).reshape(16, 4, 4)
    phi = deep.agent.features(states)
    head = deep.agent.online.head
    draws = 4.0 * np.stack([head.forward(phi, weights).numpy() for weights in head.pool])  # (draws, states, actions)
    q = deep.q_posterior(states)
    np.testing.assert_allclose(q.mean, deep.q_values(states), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(q.std, draws.std(0), rtol=1e-4)
    np.testing.assert_allclose(q.predictive_std**2, q.std**2 + 16.0 * head.posterior.noise_var, rtol=1e-6)
    best = draws.argmax(2)
    shares = deep.optimal_action_probabilities(states)
    np.testing.assert_allclose(shares, np.stack([(best == 0).mean(0), (best == 1).mean(0)], 1))
    np.testing.assert_array_equal(deep.optimal_action_probabilities(states[3]), shares[3])
    np.testing.assert_allclose(q.std, 4.0 * deep.agent.view(states).std)  # it means the same wherever it is asked for
    belief = deep.agent.view(states).belief
    assert not np.allclose(q.std, 4.0 * belief.posterior.std(belief.x).T, rtol=0.05)


def test_before_its_first_fit_the_belief_is_the_prior() -> None:
    assert (learner().q_posterior(np.zeros((4, 4), np.float32)).std > 0).all()


def test_an_unseen_state_is_less_sure_than_a_seen_one_where_there_are_prior_features() -> None:
    """Beside its starting state, which every episode sees, the sea's far corner was never reached."""
    deep = bdqn.make(
        "bdqn-deep",
        "bdqn/DeepSea-v0",
        env_kwargs={"size": 10},
        noise="fixed",
        noise_var=0.01,
        prior_var=1.0,
        **TINY,
    ).learn(500)
    start, corner = np.zeros((2, 10, 10), np.float32)
    start[0, 0] = corner[9, 9] = 1.0
    belief = deep.agent.view(np.stack([start, corner])).belief
    at_start, at_corner = belief.posterior.std(belief.x).T
    assert at_corner.min() > 5 * at_start.max()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"posterior_data": "minibatches"}, "posterior_data = replay"),
        ({"gram_decay": 0.5}, "gram_decay = 0"),
        ({"last_layer": "gradient-prior"}, "last_layer = regression"),
        ({"prior_scale": 1.0}, "prior_scale = 0"),
        ({"prior_scale": 1.0, "prior_features": 0}, "prior_scale = 0"),  # a draw of the regression is not all of Q then
    ],
)
def test_settings_that_exclude_one_another_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        learner(**settings)


def test_it_is_registered_as_a_change_to_bayesian_dqn() -> None:
    assert issubclass(AGENTS["bdqn-deep"].settings, AGENTS["bdqn"].settings)


def test_two_kinds_side_by_side_are_what_each_is_alone() -> None:
    rows = chain(6)
    posteriors = belief(rows), fit(Moments.zero(6, (1,)), Prior(2.0, Fixed(0.5)))

    def kinds() -> list[BackedUpWeights]:
        rng = np.random.default_rng(0)
        return [
            BackedUpWeights(p, p.sample(rng, count), np.full(count, 3.0))
            for p, count in zip(posteriors, (2, 3), strict=True)
        ]

    together, alone = kinds(), kinds()
    back_up(together, rows, 5)
    for kind in alone:
        back_up([kind], rows, 5)
    for one, other in zip(together, alone, strict=True):
        assert one.weights == pytest.approx(other.weights, rel=1e-9)
    assert not np.allclose(together[0].weights[:1], together[1].weights[:1])
