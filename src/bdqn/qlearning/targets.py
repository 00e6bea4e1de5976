"""Temporal-difference targets: what a prediction is pulled towards, and who selects and evaluates in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from bdqn.config.settings import Training
    from bdqn.networks.heads import TrainingIndices
    from bdqn.networks.qnetwork import QNetwork
    from bdqn.replay.batch import Batch, Masks, Numbers, Outcomes

QValues = Callable[[], Tensor]  # evaluated only if a bootstrap asks for it
Bootstrap = Callable[[QValues, QValues], Tensor]


def double_q(select: QValues, evaluate: QValues) -> Tensor:
    """One network selects the next action, the other evaluates it (van Hasselt et al., 2016)."""
    action = select().argmax(-1, keepdim=True)
    return evaluate().gather(-1, action).squeeze(-1)


def max_q(select: QValues, evaluate: QValues) -> Tensor:
    """The network that evaluates also selects (Mnih et al., 2015)."""
    return evaluate().amax(-1)


class TDTargets:
    """The online network, its delayed copy, and the targets that the two give."""

    def __init__(
        self,
        online: QNetwork,
        target: QNetwork,
        training: Training,
        device: torch.device,
        return_share: float = 0.0,
    ) -> None:
        """``return_share`` is eta, the share of an episode's return in a target; the rest is bootstrapped."""
        self.online, self.target, self.device, self.return_share = online, target, device, return_share
        self.gamma, self.reward_clip = training.gamma, training.reward_clip
        self.reward_unit = 0.0 if training.reward_scaling else 1.0  # Q is learned in this unit; 0: not known yet
        self.in_sync = True  # the two networks are equal

    def sync(self) -> None:
        """theta^target <- theta."""
        self.target.load_state_dict(self.online.state_dict())
        self.in_sync = True

    @torch.no_grad()
    def td_target(
        self, batch: Batch, indices: TrainingIndices, bootstrap: Bootstrap, phi_target: Tensor | None = None
    ) -> Tensor:
        """Alg. 3, the target line, with the discount that it omits: y = r + gamma Q(x', a^), or r at an end.

        ``phi_target`` are the target network's features of the next observations, if the caller has them already.
        """
        next_obs = self.tensor(batch.next_obs)
        evaluated = self.target.features(next_obs) if phi_target is None else phi_target

        def selected() -> Tensor:
            return evaluated if self.in_sync else self.online.features(next_obs, like=evaluated)

        value = self.value(selected, evaluated, batch.next_allowed, indices, bootstrap)
        reward, discount = (self.tensor(part) for part in self.reward_and_discount(batch))
        if value.ndim == 2:  # a target for each member
            reward, discount = reward[:, None], discount[:, None]
        target = torch.addcmul(reward, discount, value)
        return target if batch.returns is None else self._mixed(target, self.tensor(batch.returns))

    def value(
        self, phi_online: QValues, phi_target: Tensor, allowed: Masks, indices: TrainingIndices, bootstrap: Bootstrap
    ) -> Tensor:
        """What observations are worth, given both networks' features there and which actions are ``allowed``."""
        forbidden = None if allowed is None else self.tensor(~allowed)

        def select() -> Tensor:
            return _except(forbidden, self.online.q(phi_online(), indices.select))

        def evaluate() -> Tensor:
            return _except(forbidden, self.target.q(phi_target, indices.evaluate))

        return bootstrap(select, evaluate)

    def _mixed(self, target: Tensor, returns: Tensor) -> Tensor:
        """(1 - eta) target + eta return, where that is known."""
        if target.ndim == 2:
            returns = returns[:, None]
        return torch.where(returns.isnan(), target, torch.lerp(target, returns, self.return_share))

    def reward_and_discount(self, batch: Batch | Outcomes) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Rewards in the learner's unit, clipped and summed over n steps, and the discount of the value after them."""
        reward = self.learned_reward(batch.reward, batch.bonus)
        gamma = np.float32(self.gamma)
        discount = gamma * ~batch.terminal  # termination is a discount of zero
        if batch.steps is not None:
            reward = reward @ gamma ** np.arange(reward.shape[1], dtype=np.float32)
            discount *= gamma ** (batch.steps - 1).astype(np.float32)
        return reward, discount

    def learned_reward(self, reward: NDArray[np.float32], bonus: Numbers) -> NDArray[np.float32]:
        """What is to be gained: rewards in the learner's unit, and bonuses, which are given in it and not clipped."""
        reward = self.in_own_unit(reward)
        return reward if bonus is None else reward + bonus

    def in_own_unit(self, reward: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rewards in the unit that Q is learned in, and clipped."""
        reward = reward / np.float32(self.reward_unit or 1.0)
        return reward.clip(-self.reward_clip, self.reward_clip) if self.reward_clip else reward

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """An array on the networks' device."""
        return torch.from_numpy(array).to(self.device)


def _except(forbidden: Tensor | None, q: Tensor) -> Tensor:
    """Q of the actions that are allowed, for every member alike; nobody selects one that is ``forbidden``."""
    if forbidden is None:
        return q
    return q.masked_fill(forbidden if q.ndim == 2 else forbidden[:, None], -torch.inf)
