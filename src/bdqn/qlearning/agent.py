"""The one Q-learning agent: Double DQN, with everything in which exploration methods differ left open as choices.

- head: which Q-functions it entertains, and how one is drawn
- policy: how Q-values become an action
- redraw: when the acting Q-function is drawn again (`draws`)
- bootstrap: who selects and who evaluates the next action (`targets`)
- fit: whether, and when, the last layer is fitted in closed form (`last_layer`)

Alg. 3 of the paper is this agent with a Bayesian head, greedy actions under a posterior draw, and a fit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bdqn.config.observations import ObservationSpec
from bdqn.config.settings import Training
from bdqn.networks.heads import Index
from bdqn.networks.normalisation import batch_statistics
from bdqn.networks.optimizers import make_optimizer
from bdqn.networks.precision import prepare_bfloat16
from bdqn.networks.qnetwork import QNetwork, make_network
from bdqn.qlearning.agent_state import agent_state, load_agent_state
from bdqn.qlearning.choices import Choices
from bdqn.qlearning.finite_checks import check_agent, check_loss, check_start, check_step
from bdqn.qlearning.last_layer import NEVER
from bdqn.qlearning.parts import keep_returns, make_bonuses, make_draws, make_fit, make_generators, make_replay
from bdqn.qlearning.rules import Actions, Allowed, or_uniform, uniform
from bdqn.qlearning.targets import TDTargets
from bdqn.qlearning.view import QView
from bdqn.replay.batch import Batch

if TYPE_CHECKING:
    from bdqn.envs.interaction import Step

WEIGHT_CHECK = 100  # updates between looks at every weight: an infinity can hide behind a ReLU, a NaN cannot


class QAgent:
    """Acts in N environments at once, and learns Q from what it sees."""

    def __init__(
        self,
        spec: ObservationSpec,
        num_actions: int,
        choices: Choices,
        training: Training,
        *,
        seed: int = 0,
        num_envs: int = 1,
        masked: bool = False,
        device: str = "cpu",
        network: nn.Module | None = None,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        """``masked``: observations come with masks, which say which actions are allowed there."""
        if choices.fit is not None and choices.fit.adapts:
            spec = spec.following_range()
        self.spec, self.num_actions, self.num_envs = spec, num_actions, num_envs
        self.choices, self.training = choices, training
        self.device = torch.device(device)
        if training.precision == "bfloat16":
            prepare_bfloat16(self.device)
        self.online = make_network(
            spec, num_actions, choices.head, training, seed, network, saved, choices.frozen_prior, choices.copies
        ).to(self.device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.optimizer = make_optimizer(self.online.named_parameters(), training)
        self.rngs = make_generators(choices, training, seed)
        self.replay = make_replay(choices, training, spec, num_envs, self.rngs, num_actions if masked else 0)
        self.bonuses = make_bonuses(choices, spec, seed)
        self.targets = TDTargets(self.online, self.target, training, self.device, choices.return_share)
        keep_returns(choices, self.replay, self.targets)
        self.draws = make_draws(choices, self.online.head, training.gamma, num_envs, self.rngs)
        self.last_layer = make_fit(choices, training, self.targets, self.replay, self.draws, self.rngs)
        self.steps = 0  # decisions, over all environments
        self.updates = 0
        self.metrics: dict[str, float] = {}

    # --- acting ---------------------------------------------------------------------------------------------

    def start(self, obs: NDArray[Any], envs: NDArray[np.int64] | None = None, allowed: Allowed = None) -> None:
        """These environments (all of them) stand at the first observation of an episode."""
        check_start(obs, self.steps)
        self.replay.start(obs, envs, allowed)
        self.draws.start_episodes(np.arange(self.num_envs) if envs is None else envs)

    @torch.no_grad()
    def act(self, obs: NDArray[Any], allowed: Allowed = None) -> Actions:
        """One action for each environment."""
        rng = self.rngs["explore"]
        if self.steps < self.training.learning_starts or not self.online.head.fitted:
            return uniform(rng, len(obs), self.num_actions, allowed)
        actions = self.choices.policy(self.view(obs, self.draws.acting, allowed), self.steps, rng)
        return or_uniform(actions, self.draws.at_random, rng, self.num_actions, allowed)

    @torch.no_grad()
    def features(self, obs: NDArray[Any]) -> Tensor:
        """phi at these observations (batch, *obs)."""
        return self.viewed.features(self.tensor(obs))

    @property
    def viewed(self) -> QNetwork:
        """The network whose features it acts by: the online one, or that of the last fit."""
        as_fitted = self.last_layer is not None and self.choices.acts_as_fitted(self.last_layer.recurrence)
        return self.target if as_fitted else self.online

    def view(self, obs: NDArray[Any], index: Index = None, allowed: Allowed = None) -> QView:
        """What it believes about Q at these observations (batch, *obs)."""
        return QView(self.online.head, self.features(obs), index, allowed)

    # --- learning -------------------------------------------------------------------------------------------

    def observe(self, action: Actions, step: Step, stop: Callable[[], bool] = NEVER) -> None:
        """What N environments answered to these actions; learn what is due, but start no fit where ``stop()`` holds."""
        check_step(step, self.steps + self.num_envs)
        self._store(action, step)
        before, self.steps = self.steps, self.steps + self.num_envs
        if self.choices.learns and self._has_started:
            # While every reward was zero there is no unit; then one look at the memory is enough.
            if not self.targets.reward_unit and (step.reward.any() or before < self.training.learning_starts):
                self.targets.reward_unit = self.replay.rms_reward()
            self._learn_what_is_due(before)
        self.draws.advance(step.ended, step.reward, step.obs)
        self.fit_if_due(stop)

    def _store(self, action: Actions, step: Step) -> None:
        terminal = step.terminal | step.truncated if self.training.timeout_is_terminal else step.terminal
        masks = self.choices.masks
        mask = None if masks is None else self.rngs["masks"].random((self.num_envs, masks.members)) < masks.probability
        bonus = None
        if self.bonuses is not None:
            bonus = self.bonuses.of(step.next_obs)
            self.metrics |= self.bonuses.metrics()
        beside = (mask, step.next_allowed, step.allowed, bonus)
        self.replay.add(action, step.reward, step.next_obs, terminal, step.ended, step.obs, *beside)

    @property
    def _has_started(self) -> bool:
        """A loaded agent has taken its first decisions long ago, but its memory starts empty."""
        return min(self.steps, self.replay.seen) >= self.training.learning_starts

    def _learn_what_is_due(self, before: int) -> None:
        for _ in range(self._intervals_passed(before, self.training.train_freq)):
            self.update()
        sync_due = self._intervals_passed(before, self.training.target_update_interval) > 0
        if (last_layer := self.last_layer) is not None:
            if fit_due := last_layer.schedule(self.steps, self._intervals_passed(before, last_layer.choice.interval)):
                self.metrics |= last_layer.prepare()
            sync_due = fit_due if last_layer.choice.growth else sync_due
        # The fit comes after it: the posterior must be fitted to the features that the target evaluates it on.
        if sync_due:
            self.sync()

    def _intervals_passed(self, before: int, interval: int) -> int:
        """How many multiples of ``interval``, counted from the start of learning, the last step passed."""
        origin = self.training.learning_starts
        return (self.steps - origin) // interval - max(before - origin, 0) // interval

    def update(self) -> None:
        """One step on theta towards the temporal-difference target, on one minibatch."""
        batch = self.replay.sample(self.training.batch_size, self.rngs["replay"])
        loss, phi, target = self._loss(batch)
        self.metrics["train/loss"] = value = float(loss.detach())
        check_loss(value, self.steps, batch, self.online, self.target)
        self.optimizer.clear()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.updates += 1
        self.targets.in_sync = False
        if self.last_layer is not None:
            self.last_layer.collect(phi, batch, target)
        if self.updates % WEIGHT_CHECK == 0:
            check_agent(self)

    def loss(self, batch: Batch) -> Tensor:
        """Alg. 3, the update line: the squared (or Huber) error of the predicting index against the target."""
        return self._loss(batch)[0]

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The loss; and the features and targets that it was taken at."""
        indices = self.online.head.training_indices(self.draws.training, self.rngs["draw"], len(batch.action))
        with batch_statistics(self.online, self.target) if self.training.batch_norm else nullcontext():
            target = self.targets.td_target(batch, indices, self.choices.bootstrap)  # (batch,) or (batch, members)
            phi = self.online.features(self.tensor(batch.obs))
        q = self.online.q(phi, indices.predict)  # (batch, actions) or (batch, members, actions)
        action = self.tensor(batch.action[:, None])
        if q.ndim == 3:
            predicted = q.gather(2, action[:, None].expand(-1, q.shape[1], 1)).squeeze(2)
            loss = self._error(predicted, target, batch.mask) * q.shape[1]  # the sum over members
        else:
            loss = self._error(q.gather(1, action), target[:, None], batch.mask)
        data = max(1, min(self.replay.seen, self.training.buffer_size))
        penalty = self.online.head.penalty(data)
        loss = loss if penalty is None else loss + penalty
        divisor = self.training.gradient_divisor
        return (loss if divisor == 1 else loss / divisor), phi, target

    def _error(self, predicted: Tensor, target: Tensor, mask: NDArray[np.bool_] | None) -> Tensor:
        """Its mean; masked transitions count as zeros."""
        error = nn.functional.mse_loss if self.training.loss == "squared" else nn.functional.smooth_l1_loss
        if mask is None:
            return error(predicted, target)
        return (error(predicted, target, reduction="none") * self.tensor(mask)).mean()

    def sync(self) -> None:
        """theta^target <- theta."""
        self.targets.sync()

    @property
    def fit_due(self) -> bool:
        """Whether a fit of the last layer was interrupted, and is still due."""
        return self.last_layer is not None and self.last_layer.due

    def fit_if_due(self, stop: Callable[[], bool] = NEVER) -> None:
        """Fit the last layer if that is due; where ``stop()`` holds it stays due, and nothing has changed.

        A fit may take a minute on Atari, and whoever asks a run to stop should not wait for it.
        """
        if self.last_layer is not None and self.last_layer.due:
            self.last_layer.due = self._has_started and not self.fit_last_layer(stop)

    def fit_last_layer(self, stop: Callable[[], bool] = NEVER) -> bool:
        """Fit the last layer now, if it has a closed form; says whether that was done before ``stop()`` held."""
        metrics = {} if self.last_layer is None else self.last_layer.run(self.steps, stop)
        self.metrics |= metrics or {}
        return metrics is not None

    def state(self) -> dict[str, Any]:
        """Everything but the replay buffer, as nested dictionaries of tensors, arrays and JSON values (not copies)."""
        return agent_state(self)

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state`` gave, or what was read from a file; what does not fit is a ValueError."""
        load_agent_state(self, state)

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """An array on this agent's device."""
        return self.targets.tensor(array)
