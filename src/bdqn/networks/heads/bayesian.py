"""The head of Bayesian DQN: a Gaussian posterior over the last layer's weights of each action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Moments, Posterior, Prior, fit
from bdqn.bayes.sampled_backups import Transitions
from bdqn.networks.heads.base import HeadShape, Index, TrainingIndices
from bdqn.networks.heads.belief import QBelief
from bdqn.networks.heads.regression import RegressionHead, apply_weights, layer_weights, with_constant, without_constant
from bdqn.networks.threads import numpy_threads
from bdqn.networks.torsos import dense_layers

Evaluator = Literal["mean", "draw", "second-draw"]


@dataclass(frozen=True)
class Roles:
    """Who is regressed in the loss, and who evaluates the next action; Alg. 3 regresses the draw. The draw selects."""

    loss: Literal["draw", "mean"] = "mean"
    evaluate: Evaluator = "mean"
    regression: Evaluator = "mean"  # evaluates in the targets of the closed-form fit


DEFAULT_ROLES = Roles()


class BayesianHead(RegressionHead):
    """Dense layers, then W phi; an index is a weight matrix W.

    No gradient reaches W: it is refitted by Bayesian linear regression on replayed transitions.
    """

    weights: Tensor  # the posterior mean w^target

    def __init__(
        self,
        shape: HeadShape,
        generator: torch.Generator,
        prior: Prior,
        roles: Roles = DEFAULT_ROLES,
        temperature: float = 1.0,
        bias: bool = True,
        frozen_q_scale: float = 0.0,
    ) -> None:
        """``frozen_q_scale`` adds so much of a frozen prior's Q-values to Q; at 0 its outputs are features."""
        super().__init__(shape)
        self.prior, self.roles, self.temperature = prior, roles, temperature
        self.bias, self.frozen_q_scale = bias, frozen_q_scale
        self.num_regressors = self._count_regressors()
        self.dense = dense_layers(shape.sizes)
        shape.initialisation.layers(self, generator)
        # W starts as a linear layer would: with zeros the features got no gradient.
        last = nn.Linear(self.num_regressors, shape.num_actions, bias=bias)
        shape.initialisation.regression(last, generator)
        self.register_buffer("weights", layer_weights(last).detach().clone())
        self.fitted = False
        belief = fit(Moments.zero(self.dim, (shape.num_actions,)), prior)
        self.posterior: Posterior = replace(belief, mean=self.weights.numpy().astype(np.float64))

    def _count_regressors(self) -> int:
        """Numbers of phi that the regression reads."""
        return self.shape.num_features + (0 if self.frozen_q_scale else self.shape.frozen_width)

    @property
    def dim(self) -> int:
        return self.num_regressors + self.bias

    def widen(self, frozen_width: int) -> None:
        """Zero weights for what is new, about as uncertain as under the prior; the fit that follows replaces both."""
        before, known = self.num_regressors, np.ones(self.dim, np.bool_)
        self.shape = replace(self.shape, frozen_width=frozen_width)
        self.num_regressors = self._count_regressors()
        known = np.insert(known, before, np.zeros(self.num_regressors - before, np.bool_))
        self.posterior = self.posterior.among(known, self.posterior.noise_var[:, None] / self.prior.ridge)
        self.weights = self._with_room(self.weights)

    def _with_room(self, weights: Tensor) -> Tensor:
        """These (..., d) with zeros where there are regressors that they do not know."""
        constant = weights.shape[-1] - self.bias
        new = weights.new_zeros(*weights.shape[:-1], self.dim - weights.shape[-1])
        return torch.cat([weights[..., :constant], new, weights[..., constant:]], dim=-1)

    @property
    def mean_index(self) -> Tensor:
        return self.weights

    def features(self, x: Tensor) -> Tensor:
        """The dense layers' output, followed by the frozen prior's, where there is one."""
        return self.dense.forward(x)

    def features_beside(self, x: Tensor, beside: Tensor) -> Tensor:
        own = self.features(x)
        return torch.cat([own, beside], dim=1) if beside.shape[1] else own

    def beside(self, phi: Tensor) -> Tensor:
        return phi[:, self.shape.num_features :]

    def forward(self, phi: Tensor, index: Index) -> Tensor:
        """Q = W phi."""
        assert index is not None
        q, offsets = apply_weights(index, phi[:, : self.num_regressors], bias=self.bias), self.offsets(phi)
        return q if offsets is None else q + offsets

    def offsets(self, phi: Tensor) -> Tensor | None:
        return self.frozen_q_scale * phi[:, self.num_regressors :] if self.frozen_q_scale else None

    def rows(self, phi: Tensor) -> Tensor:
        own = phi[:, : self.num_regressors]
        missing = self.num_regressors - own.shape[1]  # of a frozen prior that answers nothing
        return self._with_bias(torch.cat([own, own.new_zeros(len(own), missing)], dim=1) if missing else own)

    def regressors_in_use(self, phi: Tensor) -> tuple[Array, NDArray[np.int64]]:
        own = phi[:, : self.num_regressors]
        used = own.any(0)
        x: Array = self._with_bias(own[:, used]).cpu().numpy()
        constant = np.arange(self.num_regressors, self.dim)
        return x, np.append(np.flatnonzero(used.cpu().numpy()), constant)

    def _with_bias(self, own: Tensor) -> Tensor:
        return with_constant(own) if self.bias else own.detach().double()

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """``count`` weight matrices from the posterior (count, actions, d); its mean until the first fit."""
        if not self.fitted:
            return self.weights.expand(count, -1, -1).clone()
        with numpy_threads():
            sample = self.posterior.sample(rng, count, self.temperature)
        return torch.as_tensor(sample, dtype=self.weights.dtype, device=self.weights.device)

    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        predict = draw if self.roles.loss == "draw" else self.weights
        return TrainingIndices(predict, draw, self._evaluator(self.roles.evaluate, draw, rng))

    def regression_indices(self, draw: Index, rng: np.random.Generator) -> TrainingIndices:
        return TrainingIndices(None, draw, self._evaluator(self.roles.regression, draw, rng))

    def _evaluator(self, who: Evaluator, draw: Index, rng: np.random.Generator) -> Index:
        """The mean; the draw that selects; or one that is independent of it, and so of the maximum's bias."""
        if who == "mean":
            return self.weights
        return draw if who == "draw" else self.draw(rng, 1)[0]

    def fit(self, moments: Moments, transitions: Transitions | None, rng: np.random.Generator) -> None:
        """Eq. (w): replace the belief by the posterior given these data."""
        self.believe(fit(moments, self.prior))

    def believe(self, posterior: Posterior) -> None:
        self.posterior, self.fitted = posterior, True
        self.weights.copy_(torch.as_tensor(posterior.mean))

    def copy_fit(self, other: RegressionHead) -> None:
        self.weights.copy_(other.get_buffer("weights"))

    def belief_at(self, phi: Tensor) -> QBelief:
        offsets, draws = self.offsets(phi), self.q_of_draws(phi)
        return QBelief(
            self.posterior,
            self.regressors(phi),
            0.0 if offsets is None else without_constant(offsets).T,
            None if draws is None else without_constant(draws),
        )

    def belief_state(self) -> dict[str, Any]:
        return {"posterior": self.posterior.state(), "fitted": self.fitted}

    def load_belief_state(self, state: Mapping[str, Any]) -> None:
        self.posterior = Posterior.from_state({name: np.array(value) for name, value in state["posterior"].items()})
        self.fitted = bool(state["fitted"])
