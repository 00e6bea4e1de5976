"""Q-values at some observations, as a policy and whoever asks the agent see them."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from torch import Tensor

from bdqn.networks.heads import Head, Index, QBelief
from bdqn.qlearning.action_probabilities import optimal_action_probabilities
from bdqn.qlearning.rules import Allowed, Array, only_allowed


class QView:
    """What a policy may look at: Q under the acting draw, its posterior mean and spread. (rows, actions)

    Q is that of all actions; a policy takes one of those ``allowed`` (None: all).
    """

    def __init__(self, head: Head, phi: Tensor, index: Index, allowed: Allowed = None) -> None:
        self._head, self._phi, self._index, self.allowed = head, phi, index, allowed
        self.shape = (len(phi), head.num_actions)

    @cached_property
    def draw(self) -> Array:
        return self._values(self._index)

    @cached_property
    def mean(self) -> Array:
        return self._values(self._head.mean_index)

    @cached_property
    def verdict(self) -> Array:
        """What is maximised without exploring: the mean; or by how many draws each action is voted for.

        Between actions with as many votes, the mean decides.
        """
        if not self._head.votes:
            return self.mean
        assert self.draws is not None, "a head that votes has draws to pick from"
        votes = len(self.draws) * optimal_action_probabilities(self.draws, self.allowed)
        ranks = only_allowed(self.mean, self.allowed).argsort(-1).argsort(-1)
        return np.asarray(votes + ranks / self.shape[1])

    @cached_property
    def std(self) -> Array:
        """Epistemic standard deviation: of the draws that it picks from, or of the posterior that it draws from."""
        if self.belief is None:
            raise TypeError("This agent keeps no posterior over Q, so it has no spread; use a Bayesian agent (bdqn).")
        return self.belief.std

    @cached_property
    def belief(self) -> QBelief | None:
        """The posterior at these observations; None: the head keeps none."""
        return self._head.belief_at(self._phi)

    @cached_property
    def draws(self) -> Array | None:
        """Q under every draw that is picked from (draws, rows, actions); None where each is a new one."""
        q = self._head.q_of_draws(self._phi)
        return None if q is None else _numpy(q)

    def _values(self, index: Index) -> Array:
        return _numpy(self._head.forward(self._phi, index))


def _numpy(q: Tensor) -> Array:
    values: Array = q.detach().cpu().numpy()
    return values
