"""The head of Bayesian DQN: a Gaussian posterior over the last layer's weights of each action."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bdqn.bayes.posterior import Array, Moments, Posterior, Prior, fit
from bdqn.bayes.sampled_backups import Transitions, sampled_backups
from bdqn.networks.heads.base import HeadShape, Index, RegressionHead, TrainingIndices, layer_weights, with_constant
from bdqn.networks.torsos import dense_layers, initialise

Evaluator = Literal["mean", "draw", "second-draw"]


@dataclass(frozen=True)
class Backups:
    """Draws are made when the posterior is fitted, and backed up then; until the next fit they are picked from."""

    draws: int
    sweeps: int
    beyond: float  # the best value that a draw may see, in prior standard deviations beyond the mean's


@dataclass(frozen=True)
class BayesianOptions:
    """How a Bayesian head departs from the paper's; its settings of the same names say what they mean."""

    temperature: float = 1.0
    bias_feature: bool = True
    last_layer: Literal["regression", "gradient-prior", "gradient"] = "regression"
    loss_head: Literal["draw", "mean"] = "mean"
    evaluate_head: Evaluator = "mean"
    regression_head: Evaluator = "mean"
    prior: Literal["none", "q", "features"] = "none"  # what the numbers of a frozen prior are
    prior_scale: float = 0.0
    backups: Backups | None = None


class BayesianHead(RegressionHead):
    """Dense layers, then W phi; an index is a weight matrix W.

    No gradient reaches W: it is refitted by Bayesian linear regression on replayed transitions. A last layer that
    gradients do train, where there is one, serves as the prior's mean or the posterior's. As the posterior's it is so
    at every moment: an index then counts by how far it was from the mean when that was fitted.
    """

    weights: Tensor
    pool: Tensor

    def __init__(self, shape: HeadShape, generator: torch.Generator, prior: Prior, options: BayesianOptions) -> None:
        super().__init__(shape)
        self.prior, self.options = prior, options
        self.dense = dense_layers(shape.sizes)
        initialise(self, generator)
        # The posterior mean w^target. It starts as a linear layer would: with zeros the features got no gradient.
        last = nn.Linear(self.num_regressors, shape.num_actions, bias=options.bias_feature)
        initialise(last, generator)
        self.register_buffer("weights", layer_weights(last).detach().clone())
        if options.backups is not None:
            self.register_buffer("pool", self.weights.expand(options.backups.draws, -1, -1).clone())
        self.last = None if options.last_layer == "regression" else last
        self.fitted = False
        belief = fit(Moments.zero(self.dim, (shape.num_actions,)), prior)
        self.posterior = replace(belief, mean=self.weights.numpy().astype(np.float64))

    @property
    def num_regressors(self) -> int:
        return self.shape.num_features + (self.shape.prior_width if self.options.prior == "features" else 0)

    @property
    def dim(self) -> int:
        """The features, and a constant 1 where there is a bias feature."""
        return self.num_regressors + self.options.bias_feature

    @property
    def mean_index(self) -> Tensor:
        return self.weights

    @property
    def belief(self) -> Posterior:
        """The posterior as it acts now."""
        assert self.posterior is not None
        if not self._follows_gradients:
            return self.posterior
        now = self._beside_the_trained_layer(self.weights).detach().cpu().numpy()
        return replace(self.posterior, mean=now.astype(np.float64))

    @property
    def _follows_gradients(self) -> bool:
        return self.options.last_layer == "gradient"

    def _beside_the_trained_layer(self, index: Tensor) -> Tensor:
        assert self.last is not None
        return layer_weights(self.last) + (index - self.weights)

    def features(self, x: Tensor) -> Tensor:
        """The dense layers' output, and behind it the prior's features or Q-values, where there are any."""
        if not self.shape.prior_width:
            return self.dense.forward(x)
        width = self.shape.sizes[0]
        return torch.cat([self.dense.forward(x[:, :width]), x[:, width:]], dim=1)

    def forward(self, phi: Tensor, index: Index) -> Tensor:
        """Q = W phi: W (actions, d) for all rows, or one W per row (batch, actions, d)."""
        assert index is not None
        if self._follows_gradients:
            index = self._beside_the_trained_layer(index)
        x, offsets = phi[:, : self.num_regressors], self.offsets(phi)
        weight, bias = index, None
        if self.options.bias_feature:
            weight, bias = index[..., :-1], index[..., -1]
        if index.ndim == 2:
            q = linear(x, weight, bias)
        else:
            q = torch.matmul(weight, x.unsqueeze(-1)).squeeze(-1)
            q = q if bias is None else q + bias
        return q if offsets is None else q + offsets

    def offsets(self, phi: Tensor) -> Tensor | None:
        if self.options.prior != "q":
            return None
        return self.options.prior_scale * phi[:, self.shape.num_features :]

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """``count`` weight matrices from the posterior (count, actions, d); its mean until the first fit."""
        if not self.fitted:
            return self.weights.expand(count, -1, -1).clone()
        if self.options.backups is not None:
            return self.pool[torch.from_numpy(rng.integers(len(self.pool), size=count))]
        assert self.posterior is not None
        sample = self.posterior.sample(rng, count, self.options.temperature)
        return torch.as_tensor(sample, dtype=self.weights.dtype, device=self.weights.device)

    def q_of_draws(self, phi: Tensor) -> Tensor | None:
        """Draws are kept to be picked from only where a fit has backed them up."""
        if self.options.backups is None or not self.fitted:
            return None
        return torch.stack([self.forward(phi, weights) for weights in self.pool])

    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        """Alg. 3: the draw is regressed and selects, the posterior mean evaluates; options replace either."""
        if self.options.last_layer == "gradient-prior":
            assert self.last is not None
            predict: Index = layer_weights(self.last)
        else:
            predict = draw if self.options.loss_head == "draw" and self.last is None else self.weights
        return TrainingIndices(predict, draw, self._evaluating(self.options.evaluate_head, draw, rng))

    def regression_indices(self, draw: Index, rng: np.random.Generator) -> TrainingIndices:
        return TrainingIndices(None, draw, self._evaluating(self.options.regression_head, draw, rng))

    def _evaluating(self, who: Evaluator, draw: Index, rng: np.random.Generator) -> Index:
        """The mean; the draw that selects; or one that is independent of it, and so of the maximum's bias."""
        if who == "mean":
            return self.weights
        return draw if who == "draw" else self.draw(rng, 1)[0]

    def regressors(self, phi: Tensor) -> Array:
        x = phi[:, : self.num_regressors]
        return with_constant(x) if self.options.bias_feature else x.detach().cpu().numpy().astype(np.float64)

    def update(self, moments: Moments) -> None:
        """Replace the belief by the posterior given these data."""
        if self.last is None:
            self._believe(fit(moments, self.prior))
        else:
            trained = layer_weights(self.last).detach().cpu().numpy().astype(np.float64)
            belief = fit(moments, replace(self.prior, mean=trained))
            self._believe(belief if self.options.last_layer == "gradient-prior" else replace(belief, mean=trained))
        self.fitted = True

    def _believe(self, posterior: Posterior) -> None:
        self.posterior = posterior
        self.weights.copy_(torch.as_tensor(posterior.mean))

    def back_up(self, transitions: Transitions, rng: np.random.Generator) -> None:
        """Make the mean, and the draws of the pool, consistent with their own future on these transitions.

        A mean that lagged behind, one step per fit, would be a wrong target for the features: as these follow it, draws
        made for them lose their meaning before the next fit.
        """
        backups = self.options.backups
        assert backups is not None
        assert self.posterior is not None
        norm = np.sqrt((transitions.next_x**2).sum(1).mean(dtype=np.float64))
        prior_std = np.sqrt(self.prior.ridge**-1 * self.posterior.noise_var.max()) * norm
        mean, draws = sampled_backups(
            self.posterior,
            transitions,
            rng,
            backups.draws,
            backups.sweeps,
            temperature=self.options.temperature,
            beyond=backups.beyond * prior_std,
        )
        self._believe(replace(self.posterior, mean=mean))
        self.pool.copy_(torch.as_tensor(draws))

    def take_fit(self, other: RegressionHead) -> None:
        assert isinstance(other, BayesianHead)
        self.weights.copy_(other.weights)
