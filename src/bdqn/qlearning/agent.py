"""The one Q-learning agent. What an exploration method changes are its four choices; all else is here, once.

- head: which Q-functions it entertains, and how one is picked
- policy: how Q-values become an action
- redraw: when the acting Q-function is picked again
- bootstrap: who selects and who evaluates the next action

Alg. 3 of the paper is this file with a Bayesian head, greedy actions under a posterior draw, and a refit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bdqn.bayes.posterior import Fixed, Moments, Posterior, PosteriorError
from bdqn.config.seeding import generator
from bdqn.config.settings import Training
from bdqn.envs.interaction import Step
from bdqn.networks.heads import BayesianHead, Index, RegressionHead, TrainingIndices
from bdqn.networks.optimizers import make_optimizer
from bdqn.networks.precision import prepare_bfloat16
from bdqn.networks.qnetwork import make_network
from bdqn.networks.threads import numpy_threads
from bdqn.networks.torsos import ObservationSpec
from bdqn.qlearning.choices import Bootstrap, Choices, QView, Refit
from bdqn.qlearning.diagnostics import POSTERIOR_METRICS, SpreadWatch, calibration, posterior_metrics
from bdqn.qlearning.finite_checks import check_draw, check_loss, check_network, check_optimizer, check_start, check_step
from bdqn.qlearning.regression import Regression, Rows, add_rows, regression_data, unseen_rows
from bdqn.qlearning.rules import Actions, uniform
from bdqn.replay.buffer import Batch, Replay
from bdqn.replay.duplicates import Distinct
from bdqn.storage.state_files import require_like

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
        device: str = "cpu",
        network: nn.Module | None = None,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        self.spec, self.num_actions, self.num_envs = spec, num_actions, num_envs
        self.choices, self.training = choices, training
        self.device = torch.device(device)
        if training.precision == "bfloat16":
            prepare_bfloat16(self.device)
        self.online = make_network(
            spec, num_actions, choices.head, training, seed, network, saved, choices.prior, choices.copies
        ).to(self.device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.optimizer = make_optimizer(self.online.named_parameters(), training)
        self.replay = Replay(
            training.buffer_size,
            spec.shape,
            spec.dtype,
            num_envs,
            spec.stack,
            packed=training.pack_frames,
            n_steps=training.n_steps,
            members=choices.members,
        )
        names = ("explore", "draw", "replay", "refit", *(["masks"] if choices.masks else []))
        self.rngs = {name: generator(seed, name) for name in names}
        self.steps = 0  # decisions, over all environments
        self.updates = 0
        self.reward_unit = 0.0 if training.reward_scaling else 1.0  # Q is learned in this unit; 0: not known yet
        self.metrics: dict[str, float] = {}
        self.training_index: Index = None
        self.acting_index: Index = None
        self._env_steps = 0  # decisions of each environment
        self.refit_due = False  # true between decisions only where a refit was told to stop
        self._in_sync = True  # target and online network are equal
        self._distinct = Distinct(self.replay)
        self._spread_watch = SpreadWatch()
        refit, head = choices.refit, self.online.head
        self.collected: Moments | None = None  # data of the regression that outlast a fit
        if refit and (refit.decay or refit.from_minibatches):
            assert isinstance(head, RegressionHead)
            self.collected = Moments.zero(head.dim, (num_actions,))
        self._redraw_training()
        self._redraw_acting(np.arange(num_envs))

    # --- acting ---------------------------------------------------------------------------------------------

    def start(self, obs: NDArray[Any], envs: NDArray[np.int64] | None = None) -> None:
        """These environments (all of them) stand at the first observation of an episode."""
        check_start(obs, self.steps)
        self.replay.start(obs, envs)
        self._redraw_at_episode_starts(np.arange(self.num_envs) if envs is None else envs)

    @torch.no_grad()
    def act(self, obs: NDArray[Any]) -> Actions:
        """One action for each environment."""
        rng = self.rngs["explore"]
        if self.steps < self.training.learning_starts or not self.online.head.fitted:
            return uniform(rng, len(obs), self.num_actions)
        phi = self.online.features(self.tensor(obs))
        return self.choices.policy(QView(self.online, phi, self.acting_index), self.steps, rng)

    @torch.no_grad()
    def features(self, obs: NDArray[Any]) -> Tensor:
        """phi at these observations (batch, *obs)."""
        return self.online.features(self.tensor(obs))

    def view(self, obs: NDArray[Any], index: Index = None) -> QView:
        """What it believes about Q at these observations (batch, *obs)."""
        return QView(self.online, self.features(obs), index)

    # --- learning -------------------------------------------------------------------------------------------

    def observe(self, action: Actions, step: Step, stop: Callable[[], bool] = lambda: False) -> None:
        """What N environments answered to these actions; learn what is due, but no refit where ``stop()`` holds."""
        check_step(step, self.steps + self.num_envs)
        terminal = step.terminal | step.truncated if self.training.timeout_is_terminal else step.terminal
        masks = self.choices.masks
        mask = None if masks is None else self.rngs["masks"].random((self.num_envs, masks.members)) < masks.probability
        self.replay.add(action, step.reward, step.next_obs, terminal, step.ended, step.obs, mask)
        before, self.steps = self.steps, self.steps + self.num_envs
        self._env_steps += 1
        if self.choices.learns and self._has_started:
            # While every reward was zero there is no unit; then one look at the memory is enough.
            if not self.reward_unit and (step.reward.any() or before < self.training.learning_starts):
                self.reward_unit = self.replay.rms_reward()
            self._learn_what_is_due(before)
        self._redraw_what_is_due(before, step.ended)
        self.refit_if_due(stop)

    @property
    def _has_started(self) -> bool:
        """A loaded agent has taken its first decisions long ago, but its memory starts empty."""
        return min(self.steps, self.replay.seen) >= self.training.learning_starts

    def _learn_what_is_due(self, before: int) -> None:
        training = self.training
        for _ in range(self._due(before, training.train_freq)):
            self.update()
        # The refit comes after it: the posterior must be fitted to the features that the target evaluates it on.
        if self._due(before, training.target_update_interval):
            self.sync()
        refit = self.choices.refit
        if refit and (self._due(before, refit.interval) or (refit.at_start and not self.online.head.fitted)):
            self.refit_due = True

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
        self._in_sync = False
        if self.choices.refit and self.choices.refit.from_minibatches:
            assert self.collected is not None
            with numpy_threads():
                add_rows(self.online.head, self.collected, phi.detach(), torch.from_numpy(batch.action), target)
        if self.updates % WEIGHT_CHECK == 0:
            self.check_finite()

    def loss(self, batch: Batch) -> Tensor:
        """Alg. 3, the update line: the squared (or Huber) error of the predicting index against the target."""
        return self._loss(batch)[0]

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The loss; and the features and targets that it was taken at."""
        indices = self.online.head.training_indices(self.training_index, self.rngs["draw"], len(batch.action))
        target = self.td_target(batch, indices, self.choices.bootstrap)  # (batch,) or (batch, members)
        phi = self.online.features(self.tensor(batch.obs))
        q = self.online.q(phi, indices.predict)  # (batch, actions) or (batch, members, actions)
        action = self.tensor(batch.action[:, None])
        if q.ndim == 3:
            predicted = q.gather(2, action[:, None].expand(-1, q.shape[1], 1)).squeeze(2)
            loss = self._error(predicted, target, batch.mask) * q.shape[1]  # the sum over members
        else:
            loss = self._error(q.gather(1, action), target[:, None], batch.mask)
        divisor = self.training.gradient_divisor
        return (loss if divisor == 1 else loss / divisor), phi, target

    def _error(self, predicted: Tensor, target: Tensor, mask: NDArray[np.bool_] | None) -> Tensor:
        """Its mean; transitions that are masked count as zeros."""
        error = nn.functional.mse_loss if self.training.loss == "squared" else nn.functional.smooth_l1_loss
        if mask is None:
            return error(predicted, target)
        return (error(predicted, target, reduction="none") * self.tensor(mask)).mean()

    @torch.no_grad()
    def td_target(
        self, batch: Batch, indices: TrainingIndices, bootstrap: Bootstrap, phi_target: Tensor | None = None
    ) -> Tensor:
        """Alg. 3, the target line, with the discount that it forgot: y = r + gamma Q(x', a^), or r at an end.

        ``phi_target`` are the target network's features of the next observations, where someone has them already.
        """
        next_obs = self.tensor(batch.next_obs)
        if phi_target is None:
            phi_target = self.target.features(next_obs)

        def select() -> Tensor:
            phi = phi_target if self._in_sync else self.online.features(next_obs, like=phi_target)
            return self.online.q(phi, indices.select)

        def evaluate() -> Tensor:
            return self.target.q(phi_target, indices.evaluate)

        reward, discount = (self.tensor(part) for part in self.reward_and_discount(batch))
        value = bootstrap(select, evaluate)
        if value.ndim == 2:  # a target for each member
            reward, discount = reward[:, None], discount[:, None]
        return torch.addcmul(reward, discount, value)

    def reward_and_discount(self, batch: Batch) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What the learner makes of rewards, and what the value that follows them is worth."""
        reward = batch.reward / np.float32(self.reward_unit or 1.0)
        if self.training.reward_clip:
            reward = reward.clip(-self.training.reward_clip, self.training.reward_clip)
        gamma = np.float32(self.training.gamma)
        discount = gamma * ~batch.terminal  # termination is a discount of zero
        if batch.steps is not None:
            reward = reward @ gamma ** np.arange(reward.shape[1], dtype=np.float32)
            discount *= gamma ** (batch.steps - 1).astype(np.float32)
        return reward, discount

    def check_finite(self) -> None:
        """Refuse any weight, any part of the belief and any of the optimizer's averages that is not finite."""
        check_network("online", self.online, self.steps)
        check_network("target", self.target, self.steps)
        check_optimizer(self.optimizer, self.steps)
        for draw in (self.training_index, self.acting_index):
            check_draw(draw, self.steps)

    def sync(self) -> None:
        """theta^target <- theta."""
        self.target.load_state_dict(self.online.state_dict())
        self._in_sync = True

    def refit_if_due(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Fit the posterior if that is due; where ``stop()`` holds it stays due, and nothing has changed.

        It may take a minute on Atari, and whoever asks a run to stop should not wait for it.
        """
        if self.refit_due and self.choices.refit and self._has_started:
            self.refit_due = not self.refit(self.choices.refit, stop)
        else:
            self.refit_due = False

    def refit(self, refit: Refit, stop: Callable[[], bool] = lambda: False) -> bool:
        """Eq. (w): the posterior of every action's weights, given B replayed transitions; its options give other data.

        Says whether it came to its end before ``stop()`` held.
        """
        rng = self.rngs["refit"].bit_generator
        before = rng.state
        try:
            with torch.no_grad():
                # The network has the cores: threads of NumPy's would keep one busy, waiting for more to do.
                with numpy_threads(1):
                    unseen = unseen_rows(self, refit)
                    data = regression_data(self, refit, self._distinct, stop)
                if data is None:
                    rng.state = before
                    return False
                with numpy_threads():
                    self._fit_last_layer(refit, data, unseen)
        except PosteriorError as error:
            raise PosteriorError(f"At decision {self.steps:,}: {error}") from error
        return True

    def _fit_last_layer(self, refit: Refit, data: Regression, unseen: Rows | None) -> None:
        head, target_head, moments = self.online.head, self.target.head, data.moments
        assert isinstance(head, RegressionHead)
        assert isinstance(target_head, RegressionHead)
        if self.collected is not None:
            moments = moments if refit.from_minibatches else self.collected.joined(moments)
            self.collected = moments.scaled(refit.decay)
        if unseen is not None:
            assert isinstance(head, BayesianHead)
            self.metrics |= calibration(head, unseen)
        head.update(moments)
        if data.transitions is not None:
            assert isinstance(head, BayesianHead)
            head.back_up(data.transitions, self.rngs["draw"])
        target_head.take_fit(head)
        if not isinstance(head, BayesianHead):
            return
        # A draw belongs to the posterior it was drawn from.
        self._redraw_training()
        self._redraw_acting(np.arange(self.num_envs))
        view = QView(self.online, data.some_phi, self.training_index)
        self.metrics |= posterior_metrics(head, view, data.some_phi, moments)
        self._spread_watch.look(self.metrics, float(np.abs(view.mean).mean()), isinstance(head.prior.noise, Fixed))

    # --- schedules ------------------------------------------------------------------------------------------

    def _due(self, before: int, interval: int) -> int:
        """How many multiples of ``interval``, counted from the start of learning, the last step passed."""
        origin = self.training.learning_starts
        return (self.steps - origin) // interval - max(before - origin, 0) // interval

    def _redraw_what_is_due(self, before: int, ended: NDArray[np.bool_]) -> None:
        redraw = self.choices.redraw
        if redraw is None:
            return
        if ended.any():
            self._redraw_at_episode_starts(np.flatnonzero(ended))
        if redraw.steps and self.steps // redraw.steps > before // redraw.steps:
            self._redraw_training()
        acting_steps = redraw.acting_steps or redraw.steps
        if acting_steps and self._env_steps % acting_steps == 0:
            self._redraw_acting(np.arange(self.num_envs))

    def _redraw_at_episode_starts(self, envs: NDArray[np.int64]) -> None:
        redraw = self.choices.redraw
        if redraw is None or redraw.steps:
            return
        if 0 in envs:  # the training draw keeps the pace of the first environment
            self._redraw_training()
        if not redraw.acting_steps:
            self._redraw_acting(envs)

    def _draw(self, count: int) -> Index:
        with numpy_threads():
            draw = self.online.head.draw(self.rngs["draw"], count)
        check_draw(draw, self.steps)
        return draw

    def _redraw_training(self) -> None:
        if self.choices.redraw is None:
            self.training_index = self.online.head.mean_index
            return
        draw = self._draw(1)
        self.training_index = None if draw is None else draw[0]

    def _redraw_acting(self, envs: NDArray[np.int64]) -> None:
        """New acting draws; with one environment and one schedule the training draw acts too, as in the paper."""
        redraw = self.choices.redraw
        if self.training_index is None or redraw is None:
            return
        if self.num_envs == 1 and not redraw.acting_steps:
            self.acting_index = self.training_index[None]
        elif self.acting_index is None or len(envs) == self.num_envs:
            self.acting_index = self._draw(self.num_envs)
        else:
            draws = self._draw(len(envs))
            assert draws is not None
            self.acting_index[torch.as_tensor(envs)] = draws

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Every metric that this agent will ever report."""
        loss = ("train/loss",) if self.choices.learns else ()
        return loss + (POSTERIOR_METRICS if isinstance(self.online.head, BayesianHead) else ())

    # --- keeping it -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything but the replay memory, as nested dictionaries of tensors, arrays and JSON values (not copies)."""
        head = self.online.head
        return {
            "online": self.online.state_dict(),
            "target": self.target.state_dict(),
            "optimizer": self.optimizer.state(),
            "posterior": {} if head.posterior is None else head.posterior.state(),
            "indices": {
                name: index
                for name, index in (("training", self.training_index), ("acting", self.acting_index))
                if index is not None
            },
            **({} if self.collected is None else {"collected": vars(self.collected)}),
            "fitted": head.fitted,
            "refit_due": self.refit_due,
            "in_sync": self._in_sync,
            "steps": self.steps,
            "env_steps": self._env_steps,
            "updates": self.updates,
            "reward_unit": self.reward_unit,
            "metrics": dict(self.metrics),
            "spread_watch": vars(self._spread_watch),
            "generators": {name: rng.bit_generator.state for name, rng in self.rngs.items()},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state`` gave, or what was read from a file; what does not fit is a ValueError."""
        require_like("agent", state, {**self.state(), "metrics": {}})
        self.online.load_state_dict(_own_tensors(state["online"]))
        self.target.load_state_dict(_own_tensors(state["target"]))
        self.optimizer.load_state(state["optimizer"])
        head = self.online.head
        if isinstance(head, BayesianHead):
            head.posterior = Posterior.from_state({n: np.array(value) for n, value in state["posterior"].items()})
            head.fitted = bool(state["fitted"])
        if self.collected is not None:
            self.collected = Moments(**{name: np.array(value) for name, value in state["collected"].items()})
        indices = {name: index.to(self.device) for name, index in _own_tensors(state["indices"]).items()}
        self.training_index, self.acting_index = indices.get("training"), indices.get("acting")
        self.refit_due, self._in_sync = bool(state["refit_due"]), bool(state["in_sync"])
        self.steps, self._env_steps, self.updates = (int(state[name]) for name in ("steps", "env_steps", "updates"))
        self.reward_unit = float(state["reward_unit"])
        known = self.metric_names
        self.metrics = {name: float(value) for name, value in state["metrics"].items() if name in known}
        if not 0 <= self.reward_unit < np.inf:
            raise ValueError(f"reward_unit is {self.reward_unit}.")
        vars(self._spread_watch).update({name: state["spread_watch"][name] for name in vars(self._spread_watch)})
        for name, rng in self.rngs.items():
            rng.bit_generator.state = state["generators"][name]

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """An array on this agent's device."""
        return torch.from_numpy(array).to(self.device)


def _own_tensors(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Arrays or tensors as tensors in memory of their own."""
    return {
        name: value.clone() if isinstance(value, Tensor) else torch.from_numpy(value).clone()
        for name, value in values.items()
    }
