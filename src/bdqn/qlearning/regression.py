"""The rows of a fit: replayed transitions as every action's regression sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bdqn.bayes.posterior import Moments
from bdqn.bayes.sampled_backups import Transitions, joined
from bdqn.networks.heads import TrainingIndices, regression_head
from bdqn.networks.qnetwork import QNetwork
from bdqn.networks.sums import HostSums, Sums, sums_on
from bdqn.qlearning.diagnostics import Rows
from bdqn.qlearning.draws import Draws
from bdqn.qlearning.targets import Bootstrap, TDTargets
from bdqn.replay.batch import Batch
from bdqn.replay.buffer import Replay
from bdqn.replay.duplicates import DuplicateFinder, Recurrence
from bdqn.replay.returns import return_range

OBSERVED_TOGETHER = 1 << 21  # numbers in the observations of one forward pass: more would leave the cache
ADDED_TOGETHER = 4096  # rows added to the Gram matrices at once: those are megabytes, to be passed over each time
METRIC_ROWS = 256  # rows that metrics are taken at

SEEN, RECENT = 500, 100  # observations that decide how fine frozen features are
ADAPTED_METRICS = ("posterior/lengthscale", "posterior/novelty")

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class RegressionData:
    """What a fit is made from."""

    moments: Moments
    some_phi: Tensor  # of a few of its rows, for metrics
    transitions: Transitions | None = None  # all of them, if the head keeps rows
    recurrence: Recurrence = field(default_factory=Recurrence)


class RegressionSource:
    """Reads the replay buffer, and turns transitions into features and targets."""

    def __init__(self, targets: TDTargets, replay: Replay, draws: Draws, rng: np.random.Generator) -> None:
        self._targets, self._replay, self._draws, self._rng = targets, replay, draws, rng
        self._head = regression_head(targets.online.head)
        self._duplicates = DuplicateFinder(replay)

    def no_data(self) -> Moments:
        """The data of a regression that has seen nothing."""
        return Moments.zero(self._head.dim, (self._head.num_actions,))

    def adapt(self, recurrence: Recurrence, *, uses_frozen: bool) -> dict[str, float]:
        """Bring unbounded observations to the range seen, and frozen features to the resolution that the data allow.

        Where the world is small, there are enough of these to tell its observations apart.
        """
        replay, online = self._replay, self._targets.online
        env, slot = replay.index()
        if online.follows_range:
            online.follow_range(replay.observations(env, slot))
        if uses_frozen and recurrence.is_thorough and online.can_grow:
            self._grow(len(self._duplicates.observations(env, slot)[0]))
        metrics: dict[str, float] = {}
        if online.prior is not None:
            first = len(env) - max(1, len(env) // 10)  # of the recent tenth
            past = self._rng.choice(max(first, 1), min(SEEN, max(first, 1)), replace=False)
            recent = first + self._rng.choice(len(env) - first, min(RECENT, len(env) - first), replace=False)
            seen, met = (self._targets.tensor(replay.observations(env[i], slot[i])) for i in (past, recent))
            metrics = dict(zip(ADAPTED_METRICS, online.prior.adapt(seen, met, in_use=uses_frozen), strict=False))
        self._targets.sync()
        return metrics

    def _grow(self, observations: int) -> None:
        """More frozen features, if these cannot tell so many observations apart."""
        if self._targets.online.grow(observations) and self._targets.target.grow(observations):
            self._draws.renew()  # they are as wide as the belief

    def kinds_of_transition(self) -> int:
        """How many transitions of the buffer differ from one another."""
        return len(self._duplicates.merge(*self._replay.index())[0])

    def counted_once(self, sampled: Moments) -> Moments:
        """Data of rows that updates sampled from the buffer, as if each transition among them had been sampled once."""
        rows, transitions = float(sampled.count.sum()), len(self._replay)
        distinct = -transitions * np.expm1(-rows / transitions)  # expected, of uniform samples with replacement
        return sampled.scaled(distinct / rows) if rows else sampled

    def returns_seen(self) -> tuple[float, float]:
        """The least and the largest discounted return of what the buffer holds, zero among them."""
        targets = self._targets
        ranges = [
            return_range(targets.in_own_unit(reward), last, cut, targets.gamma)
            for reward, last, cut in self._replay.rewards_in_order()
        ]
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    def some_features(self) -> Tensor:
        """Features of a few replayed observations, for metrics."""
        some = self._replay.sample(METRIC_ROWS, self._rng)
        return self._targets.online.features(self._targets.tensor(some.obs))

    def replayed(
        self, batch_size: int, bootstrap: Bootstrap, keeps_rows: bool, distinct: bool, stop: Callable[[], bool]
    ) -> RegressionData | None:
        """Up to ``batch_size`` transitions, all or ``distinct`` ones, with targets; None where ``stop()`` holds."""
        targets, head, online = self._targets, self._head, self._targets.online
        kept: list[Transitions] = []
        sums = sums_on(targets.device, head.dim, head.num_actions)
        indices = head.regression_indices(self._draws.training, self._rng)
        rows: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []  # features, actions, targets, counts: yet to be added

        def add() -> Tensor:
            phi, action, target, counts = (torch.cat(column) for column in zip(*rows, strict=True))
            self.add(sums, phi, action, target, counts)
            rows.clear()
            return phi

        places, recurrence = self._places(batch_size, distinct)
        if distinct:
            return self._distinct(*places, recurrence, indices, bootstrap, stop)
        for batch, counts in self._batches(*places):
            if stop():
                return None
            phi_next = targets.target.features(targets.tensor(batch.next_obs))
            target = targets.td_target(batch, indices, bootstrap, phi_next)
            phi = online.features(targets.tensor(batch.obs))
            rows.append((phi, torch.from_numpy(batch.action), target, torch.from_numpy(counts)))
            if keeps_rows:
                reward, discount = targets.reward_and_discount(batch)
                x, next_x = head.regressors(phi), head.regressors(phi_next).astype(np.float32)
                known = Transitions(x, counts, batch.action, reward, discount, next_x, next_allowed=batch.next_allowed)
                kept.append(known)
            if len(rows) * len(target) >= ADDED_TOGETHER:
                some_phi = add()
        some_phi = (add() if rows else some_phi)[-METRIC_ROWS:]
        return RegressionData(sums.moments, some_phi, joined(kept) if kept else None)

    def _distinct(
        self,
        env: Counts,
        slot: Counts,
        counts: Counts,
        recurrence: Recurrence,
        indices: TrainingIndices,
        bootstrap: Bootstrap,
        stop: Callable[[], bool],
    ) -> RegressionData | None:
        """The same from transitions that differ, all at once: features of each observation are computed once."""
        targets, head, replay = self._targets, self._head, self._replay
        outcomes = replay.outcomes(env, slot)
        both_slots = np.concatenate([slot, outcomes.next_slot])
        seen_env, seen_slot, which = self._duplicates.observations(np.tile(env, 2), both_slots)
        here, there = np.split(which, 2)
        phi = self._features(targets.online, seen_env, seen_slot, stop)
        phi_target = phi if targets.in_sync else self._features(targets.target, seen_env, seen_slot, stop)
        if phi is None or phi_target is None:
            return None
        some_phi = phi[torch.from_numpy(here[-METRIC_ROWS:])]
        allowed = None if replay.allowed is None else replay.allowed_at(seen_env, seen_slot)
        value = targets.value(lambda: phi, phi_target, allowed, indices, bootstrap).detach().cpu().numpy()

        by_action = np.argsort(outcomes.action, kind="stable")
        here, there, counts, action = (column[by_action] for column in (here, there, counts, outcomes.action))
        reward, discount = (column[by_action] for column in targets.reward_and_discount(outcomes))
        target = reward + discount * value[there]
        offsets = head.offsets(phi)
        if offsets is not None:
            target -= offsets.detach().cpu().numpy()[here, action]

        every_x, part = head.regressors_in_use(phi if targets.in_sync else torch.cat([phi, phi_target]))
        x = every_x[here]
        moments = Moments.zero(len(part), (head.num_actions,))
        moments.add_by_action(x, action, target, counts)
        nexts, leads_to = np.unique(there, return_inverse=True)
        next_x = every_x[-len(phi_target) :][nexts].astype(np.float32)
        next_allowed = None if allowed is None else allowed[nexts]
        known = Transitions(
            x, counts, action, reward, discount, next_x, next_allowed=next_allowed, leads_to=leads_to, part=part
        )
        return RegressionData(moments.among(part, head.dim), some_phi, known, recurrence)

    def _features(self, network: QNetwork, env: Counts, slot: Counts, stop: Callable[[], bool]) -> Tensor | None:
        """Of the observations at these places; None where ``stop()`` holds."""
        pieces = []
        for part in self._parts(len(env)):
            if stop():
                return None
            observations = self._replay.observations(env[part], slot[part])
            pieces.append(network.features(self._targets.tensor(observations)))
        return torch.cat(pieces)

    def _places(self, batch_size: int, distinct: bool) -> tuple[tuple[Counts, Counts, Counts], Recurrence]:
        """B transitions drawn with replacement, or each one once where there are no more than B; equal ones counted.

        Of ``distinct`` transitions, B are drawn that differ, each with all of its equals. And how many recur.
        """
        env, slot = self._replay.index()
        if len(env) > batch_size and not distinct:
            env, slot = self._replay.sample_index(batch_size, self._rng)
        env, slot, counts = self._duplicates.merge(env, slot)
        recurrence = self._duplicates.recurrence(env, slot, counts) if distinct else Recurrence()
        if len(env) > batch_size:
            drawn = np.sort(self._rng.choice(len(env), batch_size, replace=False))
            env, slot, counts = env[drawn], slot[drawn], counts[drawn]
        return (env, slot, counts), recurrence

    def _batches(self, env: Counts, slot: Counts, counts: Counts) -> Iterator[tuple[Batch, Counts]]:
        """These transitions, a few at a time."""
        for part in self._parts(len(env)):
            yield self._replay.gather(env[part], slot[part]), counts[part]

    def _parts(self, count: int) -> Iterator[slice]:
        """Which of so many observations go through a network together."""
        size = max(32, min(1024, OBSERVED_TOGETHER // int(np.prod(self._replay.obs_shape, initial=1))))
        for start in range(0, count, size):
            yield slice(start, start + size)

    def add(self, sums: Sums, phi: Tensor, action: Tensor, target: Tensor, counts: Tensor | None = None) -> None:
        """Each row goes to the regression of its action; what Q holds beside the regression is not to be explained."""
        offsets = self._head.offsets(phi)
        if offsets is not None:
            target = target - offsets.gather(1, action.to(target.device)[:, None]).squeeze(1)
        how_many = None if counts is None else counts.numpy()
        sums.add(self._head.rows(phi), action.numpy(), target, how_many)

    def add_transitions(self, moments: Moments, env: Counts, slot: Counts, bootstrap: Bootstrap) -> None:
        """Add the transitions at these places, with the target network's features."""
        targets, batch = self._targets, self._replay.gather(env, slot)
        indices = self._head.regression_indices(self._draws.training, self._rng)
        target = targets.td_target(batch, indices, bootstrap)
        phi = targets.target.features(targets.tensor(batch.obs))
        self.add(HostSums(moments), phi, torch.from_numpy(batch.action), target)

    def unseen(
        self, since: int, bootstrap: Bootstrap, indices: Callable[[int], TrainingIndices] | None = None
    ) -> Rows | None:
        """Transitions of the last ``since`` decisions, evenly spaced, with the targets that the next fit gives to them.

        The belief in force was not fitted to them. ``indices`` are the fit's, or those of as many rows of an update.
        """
        env, slot = self._replay.latest(max(1, since // self._replay.num_envs))
        if not len(env):
            return None
        spaced = slice(None, None, -(-len(env) // METRIC_ROWS))
        batch = self._replay.gather(env[spaced], slot[spaced])
        target = self._targets.td_target(batch, (indices or self._fit_indices)(len(batch.action)), bootstrap)
        return Rows(self._targets.online.features(self._targets.tensor(batch.obs)), batch.action, target)

    def _fit_indices(self, rows: int) -> TrainingIndices:
        # A copy of the generator: training is the same whether somebody looks or not.
        return self._head.regression_indices(self._draws.training, deepcopy(self._rng))
