"""``bdqn.attach``: fits the Bayesian last layer of Bayesian DQN to a network that is already trained.

The regression is the paper's Eq. (w), with two differences. Its prior is centred on the network's own last layer, so
that Q stays the network's where there are no data. And its prior and its noise are those that explain the data best.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.attached.agents import QSource, q_source
from bdqn.attached.calibration import calibrated_on
from bdqn.attached.discount import GammaWarning, contradiction
from bdqn.attached.posterior import AttachedPosterior
from bdqn.attached.sources import transitions_of
from bdqn.bayes.empirical import fit_by_evidence
from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Moments, Posterior
from bdqn.config.seeding import generator
from bdqn.config.settings import SettingError
from bdqn.networks.threads import numpy_threads

LEAST_TRANSITIONS = 200
BLOCKS = 50  # of consecutive transitions, which are held out together: neighbours are nearly equal
LEAST_NOISE = 1e-8  # variance, as a share of the targets'


def attach(
    network: Any,
    transitions: Any = None,
    *,
    gamma: float | None = None,
    target_network: Any = None,
    samples: int = 20_000,
    epsilon: float = 0.05,
    prior_spread: float = 0.5,
    held_out: float = 0.2,
    seed: int = 0,
) -> AttachedPosterior:
    """Say how sure a trained Q-network is of its values.

    Args:
        network: A DQN of Stable-Baselines3, a module that ends with a linear layer, or the pair (features, last layer).
        transitions: Where it has been: a replay buffer of Stable-Baselines3 (unset: the agent's own), a Gymnasium id,
            an environment or a function that makes one, a Minari data set, or arrays by name (`Transitions`).
        gamma: The discount that the network was trained with; unset: that of the Stable-Baselines3 agent.
        target_network: Evaluates the next action, which ``network`` selects (double Q); unset: ``network`` does both.
        samples: Decisions to take, if ``transitions`` is an environment.
        epsilon: Share of random actions there.
        prior_spread: Standard deviation of Q before there are data, as a share of the targets' root mean square. The
            data may widen it up to tenfold.
        held_out: Share of the transitions that are not fitted, and on which its intervals are tried.
        seed: Seeds what is held out and the actions in an environment.
    """
    if not 0 < held_out < 1:
        raise SettingError(f"held_out must lie between 0 and 1, not {held_out!r}: 0.2 holds out one fifth.")
    if not (np.isfinite(prior_spread) and prior_spread > 0):
        raise SettingError(f"prior_spread must be a positive number, not {prior_spread!r}.")
    source = q_source(network)
    gamma = _discount(gamma, source)
    data = transitions_of(transitions, source, samples=samples, epsilon=epsilon, rng=generator(seed, "attach"))
    if len(data) < LEAST_TRANSITIONS:
        raise SettingError(
            f"{len(data):,} transitions are too few to fit a posterior and to try it on others: give at least "
            f"{LEAST_TRANSITIONS}."
        )
    net = source.network(data.obs[:2])
    data.check(net.num_actions)
    evaluator = net if target_network is None else source.other(target_network).network(data.obs[:2])
    x, q = net.rows(data.obs)
    _, q_next = net.rows(data.next_obs)
    v_next = q_next.max(1)
    if evaluator is not net:
        v_next = evaluator.rows(data.next_obs)[1][np.arange(len(data)), q_next.argmax(1)]
    bootstrapped = np.where(data.terminal, 0.0, v_next)
    target = data.reward + gamma * bootstrapped
    _require_finite(x, target)
    q_taken = q[np.arange(len(data)), data.action]
    if doubt := contradiction(gamma, q_taken - data.reward, v_next, ~data.terminal):
        warnings.warn(doubt, GammaWarning, stacklevel=2)
    held = _held_out_rows(len(data), held_out, generator(seed, "held-out"))
    with numpy_threads():
        posterior = _fit(x[~held], data.action[~held], target[~held], net.weights, prior_spread)
        tried = calibrated_on(posterior, x[held], data.action[held], target[held])
    counts = np.bincount(data.action[~held], minlength=net.num_actions)
    return AttachedPosterior(net, posterior, gamma=gamma, calibration=tried, counts=counts, seed=seed)


def _discount(given: float | None, source: QSource) -> float:
    gamma = source.gamma if given is None else given
    if gamma is None:
        raise SettingError("gamma is needed: pass the discount that the network was trained with, such as gamma=0.99.")
    if not 0 <= gamma <= 1:
        raise SettingError(f"gamma must lie between 0 and 1, not {gamma!r}.")
    return float(gamma)


def _require_finite(x: Array, target: Array) -> None:
    for name, values in (("features", x), ("rewards or next values", target)):
        if not np.isfinite(values).all():
            raise ValueError(f"The {name} hold values that are not finite: the network has diverged, or the data have.")


def _held_out_rows(rows: int, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Whole blocks of consecutive rows."""
    block = np.arange(rows) * BLOCKS // rows
    chosen = rng.permutation(BLOCKS)[: max(1, min(BLOCKS - 1, round(share * BLOCKS)))]
    return np.isin(block, chosen)


def _fit(x: Array, action: NDArray[np.int64], target: Array, centre: Array, prior_spread: float) -> Posterior:
    """Eq. (w) around the weights ``centre`` (actions, d): a regression of what they leave unexplained."""
    num_actions, dim = centre.shape
    residual = target - (x * centre[action]).sum(1)
    moments = Moments.zero(dim, (num_actions,))
    moments.add_by_action(x, action, residual)
    scale = max(float(np.mean(target**2)), 1e-12)
    # Under these variances Q at an observation like those seen varies by prior_spread, whatever the features' norm is.
    var = np.full(dim, prior_spread**2 * scale / float((x * x).sum(1).mean()))
    belief = fit_by_evidence(moments, var, 100 * var, LEAST_NOISE * scale)
    untaken = moments.count == 0
    if untaken.any():  # whose noise nothing speaks of: take it to be like that of the others
        pooled = (belief.noise_var * moments.count).sum() / moments.count.sum()
        noise_var = np.where(untaken, pooled, belief.noise_var)
        # The factor holds precision times noise variance, which must not change the precision.
        factor = belief.factor * np.sqrt(noise_var / belief.noise_var)[:, None, None]
        belief = Posterior(belief.mean, factor, noise_var, belief.noise_shape)
    return Posterior(centre + belief.mean, belief.factor, belief.noise_var, belief.noise_shape)
