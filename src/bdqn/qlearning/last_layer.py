"""The closed-form last layer: what is collected for it, when a fit is due, and the fit itself, Eq. (w) of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bdqn.bayes.posterior import Moments, PosteriorError
from bdqn.bayes.sampled_backups import Transitions, joined
from bdqn.networks.heads import TrainingIndices, regression_head
from bdqn.networks.threads import numpy_threads
from bdqn.qlearning.diagnostics import POSTERIOR_METRICS, PosteriorWatch, Rows, calibration
from bdqn.qlearning.draws import Draws
from bdqn.qlearning.targets import Bootstrap, TDTargets
from bdqn.replay.buffer import Batch, Replay
from bdqn.replay.duplicates import DuplicateFinder

OBSERVED_TOGETHER = 1 << 21  # numbers in the observations of one forward pass: more would leave the cache
ADDED_TOGETHER = 4096  # rows added to the Gram matrices at once: those are megabytes, to be passed over each time
METRIC_ROWS = 256  # rows that metrics are taken at

Counts = NDArray[np.int64]
NEVER: Callable[[], bool] = lambda: False  # noqa: E731


@dataclass(frozen=True)
class Fit:
    """When, and from what, the head's last layer is fitted."""

    interval: int  # T^BT
    batch_size: int  # B
    bootstrap: Bootstrap
    at_start: bool = True  # fit once as soon as learning starts, rather than one interval later
    decay: float = 0.0  # share of the past fits' data that is kept; 0: the past is forgotten
    frozen_features: int = 0  # of its regressors, how many are a frozen prior's
    keeps_rows: bool = False  # the head wants all rows of a fit, to back its mean and draws up
    from_minibatches: bool = False  # from what the updates have seen since the last fit, rather than from B replayed


@dataclass(frozen=True)
class _Data:
    """What a fit is made from."""

    moments: Moments
    some_phi: Tensor  # of a few of its rows, for metrics
    transitions: Transitions | None = None  # all of them, if the head keeps rows


class LastLayerFit:
    """Fits the last layer of the online network, and copies it to the target network."""

    def __init__(
        self,
        fit: Fit,
        targets: TDTargets,
        replay: Replay,
        draws: Draws,
        rngs: Mapping[str, np.random.Generator],
        bootstrap: Bootstrap,
    ) -> None:
        """``rngs`` are the agent's, of which it uses "refit" and "draw"; ``bootstrap`` is that of its updates."""
        self.choice = fit
        self.due = False  # true between decisions only where a fit was interrupted
        self._targets, self._replay, self._draws = targets, replay, draws
        self._rng, self._draw_rng, self._update_bootstrap = rngs["refit"], rngs["draw"], bootstrap
        self._head, self._target_head = regression_head(targets.online.head), regression_head(targets.target.head)
        self._duplicates = DuplicateFinder(replay)
        self._watch = PosteriorWatch()
        self.collected: Moments | None = None  # data of the regression that outlast a fit
        if fit.decay or fit.from_minibatches:
            self.collected = self._no_data()

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Every metric that ``run`` reports."""
        return POSTERIOR_METRICS if self._head.posterior is not None else ()

    def schedule(self, intervals_passed: int) -> None:
        """A fit is due if an interval has passed since the last decision, or if there was none yet."""
        if intervals_passed or (self.choice.at_start and not self._head.fitted):
            self.due = True

    def collect(self, phi: Tensor, batch: Batch, target: Tensor) -> None:
        """Take note of the rows of one update, where the data come from minibatches."""
        if self.choice.from_minibatches:
            assert self.collected is not None
            with numpy_threads():
                self._add(self.collected, phi.detach(), torch.from_numpy(batch.action), target)

    @torch.no_grad()
    def run(self, decision: int, stop: Callable[[], bool] = NEVER) -> dict[str, float] | None:
        """Fit, and give the metrics of it; None where ``stop()`` held before the end, and then nothing has changed."""
        before = self._rng.bit_generator.state
        try:
            # The network has the cores: NumPy's threads would keep one busy, waiting for more to do.
            with numpy_threads(1):
                unseen, data = self.unseen_rows(), self._data(stop)
            if data is None:
                self._rng.bit_generator.state = before
                return None
            with numpy_threads():
                return self._fit(data, unseen)
        except PosteriorError as error:
            raise PosteriorError(f"At decision {decision:,}: {error}") from error

    def _fit(self, data: _Data, unseen: Rows | None) -> dict[str, float]:
        moments = data.moments
        if self.collected is not None:
            moments = moments if self.choice.from_minibatches else self.collected.joined(moments)
            self.collected = moments.scaled(self.choice.decay)
        metrics = {} if unseen is None else calibration(self._head, unseen)
        self._head.fit(moments, data.transitions, self._draw_rng)
        self._target_head.copy_fit(self._head)
        self._draws.renew()
        return metrics | self._watch.fitted(self._head, data.some_phi, self._draws.training, moments)

    # --- data ---------------------------------------------------------------------------------------------------

    def _no_data(self) -> Moments:
        return Moments.zero(self._head.dim, (self._head.num_actions,))

    def _data(self, stop: Callable[[], bool]) -> _Data | None:
        """The data of a fit; None where ``stop()`` holds."""
        targets, head, online = self._targets, self._head, self._targets.online
        if self.choice.from_minibatches:
            assert self.collected is not None
            some = self._replay.sample(METRIC_ROWS, self._rng)
            return _Data(self.collected, online.features(targets.tensor(some.obs)))
        kept: list[Transitions] = []
        moments = self._no_data()
        indices = head.regression_indices(self._draws.training, self._rng)
        rows: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []  # features, actions, targets, counts: yet to be added

        def add() -> Tensor:
            phi, action, target, counts = (torch.cat(column) for column in zip(*rows, strict=True))
            self._add(moments, phi, action, target, counts)
            rows.clear()
            return phi

        for batch, counts in self._batches():
            if stop():
                return None
            phi_next = targets.target.features(targets.tensor(batch.next_obs))
            target = targets.td_target(batch, indices, self.choice.bootstrap, phi_next)
            phi = online.features(targets.tensor(batch.obs))
            rows.append((phi, torch.from_numpy(batch.action), target, torch.from_numpy(counts)))
            if self.choice.keeps_rows:
                reward, discount = targets.reward_and_discount(batch)
                x, next_x = head.regressors(phi), head.regressors(phi_next)
                kept.append(Transitions(x, counts, batch.action, reward, discount, next_x))
            if len(rows) * len(target) >= ADDED_TOGETHER:
                some_phi = add()
        return _Data(moments, (add() if rows else some_phi)[-METRIC_ROWS:], joined(kept) if kept else None)

    def _batches(self) -> Iterator[tuple[Batch, Counts]]:
        """B transitions drawn with replacement, or each one once where there are no more than B; equal ones counted."""
        replay = self._replay
        env, slot = replay.index()
        if len(env) > self.choice.batch_size:
            env, slot = replay.sample_index(self.choice.batch_size, self._rng)
        env, slot, counts = self._duplicates.merge(env, slot)
        size = max(32, min(1024, OBSERVED_TOGETHER // int(np.prod(replay.obs_shape, initial=1))))
        for start in range(0, len(env), size):
            part = slice(start, start + size)
            yield replay.gather(env[part], slot[part]), counts[part]

    def _add(self, moments: Moments, phi: Tensor, action: Tensor, target: Tensor, counts: Tensor | None = None) -> None:
        """Each row goes to the regression of its action; what Q holds beside the regression is not to be explained."""
        offsets = self._head.offsets(phi)
        if offsets is not None:
            target = target - offsets.gather(1, action.to(target.device)[:, None]).squeeze(1)
        how_many = None if counts is None else counts.numpy()
        moments.add_by_action(self._head.regressors(phi), action.numpy(), target.cpu().numpy(), how_many)

    def unseen_rows(self) -> Rows | None:
        """Transitions since the last fit, evenly spaced, with the targets that the next fit gives to them.

        The belief in force was not fitted to them. The generators are copied: training is the same whether somebody
        looks or not.
        """
        if self._head.posterior is None or not self._head.fitted:
            return None
        env, slot = self._replay.latest(max(1, self.choice.interval // self._replay.num_envs))
        if not len(env):
            return None
        spaced = slice(None, None, -(-len(env) // METRIC_ROWS))
        batch = self._replay.gather(env[spaced], slot[spaced])
        indices, bootstrap = self._indices_of_next_fit(len(batch.action))
        target = self._targets.td_target(batch, indices, bootstrap)
        return Rows(self._targets.online.features(self._targets.tensor(batch.obs)), batch.action, target)

    def _indices_of_next_fit(self, rows: int) -> tuple[TrainingIndices, Bootstrap]:
        draw = self._draws.training
        if self.choice.from_minibatches:
            return self._head.training_indices(draw, deepcopy(self._draw_rng), rows), self._update_bootstrap
        return self._head.regression_indices(draw, deepcopy(self._rng)), self.choice.bootstrap

    # --- keeping it ---------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        collected = {} if self.collected is None else {"collected": vars(self.collected)}
        return {"refit_due": self.due, "spread_watch": vars(self._watch), **collected}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state`` gave."""
        self.due = bool(state["refit_due"])
        vars(self._watch).update({name: state["spread_watch"][name] for name in vars(self._watch)})
        if self.collected is not None:
            self.collected = Moments(**{name: np.array(value) for name, value in state["collected"].items()})
