"""What a fit is made from, against a sum over single transitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.bayes.posterior import Moments
from bdqn.qlearning.last_layer import NEVER
from bdqn.replay.duplicates import Recurrence

SMALL: dict[str, Any] = {"env_kwargs": {"size": 4}, "features": 16, "prior_features": 16, "learning_starts": 100}


@pytest.mark.parametrize("in_sync", [True, False])
@pytest.mark.parametrize("in_use", [True, False])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_transitions_that_differ_make_the_sums_of_all_transitions(in_sync: bool, in_use: bool, n_steps: int) -> None:
    learner = bdqn.make("bdqn-explore", "bdqn/Grid-v0", num_envs=2, n_steps=n_steps, **SMALL).learn(300)
    agent = learner.agent
    source, head, targets = agent.last_layer._source, agent.online.head, agent.targets
    source.adapt(Recurrence(), uses_frozen=in_use)
    if not in_sync:
        agent.update()
    assert targets.in_sync == in_sync
    batch = agent.replay.gather(*agent.replay.index())
    phi = agent.online.features(agent.tensor(batch.obs)).detach()
    phi_next = agent.target.features(agent.tensor(batch.next_obs))
    assert phi.shape[1] == (32 if in_use else 16)  # frozen features that take no part are left off
    indices = head.regression_indices(agent.draws.training, np.random.default_rng(0))
    target = targets.td_target(batch, indices, agent.last_layer.choice.bootstrap).numpy()
    expected = Moments.zero(head.dim, (head.num_actions,))
    expected.add_by_action(head.regressors(phi), batch.action, target)

    data = source.replayed(10_000, agent.last_layer.choice.bootstrap, True, True, NEVER)
    for name, ours in vars(data.moments).items():
        np.testing.assert_allclose(ours, vars(expected)[name], rtol=1e-4, atol=1e-5, err_msg=name)
    rows = data.transitions
    assert len(rows.next_x) < len(rows.x) < len(batch.action)
    assert (np.diff(rows.action) >= 0).all()
    every_next = np.zeros((len(rows.x), head.dim), np.float32)
    every_next[:, rows.part] = rows.next_x[rows.leads_to]
    total = (rows.count[:, None] * every_next).sum(0)
    np.testing.assert_allclose(total, head.regressors(phi_next).sum(0), rtol=1e-4, atol=1e-4)
    value = np.repeat(rows.reward, rows.count).sum() - targets.reward_and_discount(batch)[0].sum()
    assert value == pytest.approx(0.0, abs=1e-4)


def test_frozen_features_that_take_no_part_count_as_zeros() -> None:
    agent = bdqn.make("bdqn-explore", "bdqn/Grid-v0", **SMALL).learn(150).agent
    prior = agent.online.prior
    prior.load_state_dict({**prior.state_dict(), "in_use": torch.tensor(False)})
    head, obs = agent.online.head, agent.tensor(agent.replay.sample(8, np.random.default_rng(0)).obs)
    phi = agent.online.features(obs).detach()
    zeros = torch.cat([phi, torch.zeros(8, 16)], dim=1)
    draw = head.draw(np.random.default_rng(0), 8)
    for index in (head.weights, draw):
        torch.testing.assert_close(head.forward(phi, index), head.forward(zeros, index))
    np.testing.assert_array_equal(head.regressors(phi), head.regressors(zeros))
    x, part = head.regressors_in_use(zeros)
    np.testing.assert_array_equal(x, head.regressors(zeros)[:, part])
    assert part[-1] == 32  # the constant
    assert set(range(16, 32)).isdisjoint(part)
