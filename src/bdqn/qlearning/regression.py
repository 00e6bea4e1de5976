"""The data of a refit: replayed transitions as rows of every action's regression, eq. (w) of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bdqn.bayes.posterior import Moments
from bdqn.bayes.sampled_backups import Transitions, joined
from bdqn.networks.heads import BayesianHead, Head, RegressionHead
from bdqn.qlearning.choices import Refit
from bdqn.replay.buffer import Batch
from bdqn.replay.duplicates import Distinct

if TYPE_CHECKING:
    from bdqn.qlearning.agent import QAgent

CHUNK = 1 << 21  # numbers in the observations that the network looks at together: more would leave the cache
BLOCK = 4096  # rows that are added to the Gram matrices together: these are megabytes, to be gone through each time
SOME = 256  # rows that its figures are taken at

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Transitions as a regression sees them."""

    phi: Tensor
    action: NDArray[np.int64]
    target: Tensor


@dataclass(frozen=True)
class Regression:
    """What a fit is made from."""

    moments: Moments
    some_phi: Tensor  # of a few of its rows, to look at what came of it
    transitions: Transitions | None = None  # all of them, for a head that backs its mean and draws up


def regression_data(agent: QAgent, refit: Refit, distinct: Distinct, stop: Callable[[], bool]) -> Regression | None:
    """The data of a fit; nothing where it is told to stop."""
    head = agent.online.head
    assert isinstance(head, RegressionHead)
    if refit.from_minibatches:
        assert agent.collected is not None
        some = agent.replay.sample(SOME, agent.rngs["refit"])  # for the figures only
        return Regression(agent.collected, agent.online.features(agent.tensor(some.obs)))
    kept: list[Transitions] = []
    moments = Moments.zero(head.dim, (agent.num_actions,))
    indices = head.regression_indices(agent.training_index, agent.rngs["refit"])
    rows: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []  # features, actions, targets, counts: to be added yet

    def add() -> Tensor:
        phi, action, target, counts = (torch.cat(column) for column in zip(*rows, strict=True))
        add_rows(head, moments, phi, action, target, counts)
        rows.clear()
        return phi

    for batch, counts in _batches(agent, refit.batch_size, distinct):
        if stop():
            return None
        phi_next = agent.target.features(agent.tensor(batch.next_obs))
        target = agent.td_target(batch, indices, refit.bootstrap, phi_next)
        phi = agent.online.features(agent.tensor(batch.obs))
        rows.append((phi, torch.from_numpy(batch.action), target, torch.from_numpy(counts)))
        if refit.keeps_rows:
            reward, discount = agent.reward_and_discount(batch)
            x, next_x = head.regressors(phi), head.regressors(phi_next)
            kept.append(Transitions(x, counts, batch.action, reward, discount, next_x))
        if len(rows) * len(target) >= BLOCK:
            some_phi = add()
    return Regression(moments, (add() if rows else some_phi)[-SOME:], joined(kept) if kept else None)


def unseen_rows(agent: QAgent, refit: Refit) -> Rows | None:
    """What the belief in force was not fitted to, with the targets that the next fit gives to it; None if it is empty.

    A fit is due every ``interval`` decisions, so each environment's latest are new since the last one; some of them,
    evenly spaced. The generators are copied: training is the same whether somebody looks or not.
    """
    head = agent.online.head
    if not (isinstance(head, BayesianHead) and head.fitted):
        return None
    env, slot = agent.replay.latest(max(1, refit.interval // agent.num_envs))
    if not len(env):
        return None
    spaced = slice(None, None, -(-len(env) // SOME))
    batch = agent.replay.gather(env[spaced], slot[spaced])
    if refit.from_minibatches:
        indices = head.training_indices(agent.training_index, deepcopy(agent.rngs["draw"]), len(batch.action))
        target = agent.td_target(batch, indices, agent.choices.bootstrap)
    else:
        indices = head.regression_indices(agent.training_index, deepcopy(agent.rngs["refit"]))
        target = agent.td_target(batch, indices, refit.bootstrap)
    return Rows(agent.online.features(agent.tensor(batch.obs)), batch.action, target)


def add_rows(
    head: Head, moments: Moments, phi: Tensor, action: Tensor, target: Tensor, counts: Tensor | None = None
) -> None:
    """Each row goes to the regression of its action; what Q holds beside the regression is not to be explained."""
    assert isinstance(head, RegressionHead)
    offsets = head.offsets(phi)
    if offsets is not None:
        target = target - offsets.gather(1, action.to(target.device)[:, None]).squeeze(1)
    how_many = None if counts is None else counts.numpy()
    moments.add_by_action(head.regressors(phi), action.numpy(), target.cpu().numpy(), how_many)


def _batches(agent: QAgent, size: int, distinct: Distinct) -> Iterator[tuple[Batch, Counts]]:
    """B transitions drawn with replacement, or each one once where there are no more than B; equal ones counted."""
    env, slot = agent.replay.index()
    if len(env) > size:
        env, slot = agent.replay.sample_index(size, agent.rngs["refit"])
    env, slot, counts = distinct.among(env, slot)
    chunk = max(32, min(1024, CHUNK // int(np.prod(agent.spec.shape, initial=1))))
    for start in range(0, len(env), chunk):
        part = slice(start, start + chunk)
        yield agent.replay.gather(env[part], slot[part]), counts[part]
