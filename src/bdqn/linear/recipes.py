"""Agents by name: their settings, the checks on these, and how each agent is built."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from bdqn.bayes.noise import Fixed
from bdqn.bayes.posterior import Prior
from bdqn.config.settings import setting
from bdqn.linear.agents import (
    Agent,
    LinearAgent,
    boltzmann,
    epsilon_greedy,
    linpsrl,
    linucb,
    lsvi,
    lsvi_ucb,
)
from bdqn.linear.boldness import Boldness
from bdqn.linear.confidence import Confidence
from bdqn.linear.mdps import Array, Known
from bdqn.linear.tabular import Counts, TabularAgent, psrl, ucbvi, ucrl2

NOISE_WHERE_THERE_IS_NONE = 0.1  # a posterior needs positive noise


class PriorScaleWarning(UserWarning):
    """The prior is so narrow that posterior sampling may not explore."""


def _require_within(name: str, value: float, low: float, high: float) -> None:
    if not low < value < high:
        bounds = f"above {low:g}" if high == np.inf else f"between {low:g} and {high:g}, both excluded"
        raise ValueError(f"{name} must be {bounds}, not {value!r}.")


def ridge_prior(ridge: float) -> Prior:
    """A prior in units of the noise, so that the posterior standard deviation is |phi|_{chi_bar^-1}."""
    return Prior(var=1 / ridge, noise=Fixed(1.0))


def _noise_std(known: Known, given: float | None) -> float:
    return given if given is not None else known.sigma or NOISE_WHERE_THERE_IS_NONE


class Settings(Protocol):
    """The settings of an agent, which can make it."""

    def make(self, known: Known) -> Agent: ...


@dataclass(frozen=True)
class LinUCB:
    """Optimism (Algorithm 2). Targets use pessimistic values of the next step, so the sets keep their coverage."""

    radius: Literal["theory", "paper", "data"] = setting(
        "theory", "theory (corrected), paper (as printed: loses coverage) or data (no oracle)"
    )
    delta: float = setting(0.1, "the sets may fail with this probability")
    ridge: float = setting(1.0, "lambda, added to the Gram matrix's diagonal")
    scale: float = setting(1.0, "multiplies the radius; there is no guarantee below 1", minimum=0)
    rho: str = setting("oracle", "for theory and paper: oracle (from pi*), max-action (an upper bound), or a number")
    clip: bool = setting(True, "clip the bounds on V to [0, 1]; false: as printed")

    def __post_init__(self) -> None:
        _require_within("delta", self.delta, 0, 1)
        _require_within("ridge (lambda)", self.ridge, 0, np.inf)
        if self.rho not in ("oracle", "max-action"):
            try:
                _require_within("rho", float(self.rho), 0, np.inf)
            except ValueError:
                raise ValueError(f"rho must be oracle, max-action or a positive number, not {self.rho!r}.") from None

    def make(self, known: Known) -> LinearAgent:
        confidence = Confidence(
            known,
            ridge=self.ridge,
            kind=self.radius,
            delta=self.delta,
            scale=self.scale,
            rho_source=self.rho,
            clip=self.clip,
        )
        return LinearAgent(known, ridge_prior(self.ridge), linucb, confidence=confidence)


@dataclass(frozen=True)
class LinPSRL:
    """Posterior sampling (Algorithm 1). Exact for H = 1; otherwise Bayesian linear regression on one kind of target."""

    target: Literal["sample", "mean", "pessimistic"] = setting(
        "sample",
        "value of the next step in targets: the draw itself (RLSVI), the mean (as BDQN), or a pessimistic value",
    )
    noise_std: float | None = setting(None, "standard deviation of a target's noise; none: the problem's sigma")
    prior_var: float | None = setting(None, "prior variance of each weight; none: L_omega^2 / d")
    prior_mean: float = setting(0.0, "prior mean of each weight")
    inflation: str = setting(
        "1",
        "how many times wider than the posterior draws are: a number; sqrt-d, as frequentist bounds for Thompson "
        "sampling require; or several, such as 0.1/1/10, of which each episode has one, by what each has returned",
    )
    radius: Literal["theory", "paper", "data"] = setting("data", "for target pessimistic: theory, paper or data")
    delta: float = setting(0.1, "for target pessimistic: the sets may fail with this probability")

    def __post_init__(self) -> None:
        _require_within("delta", self.delta, 0, 1)
        for name in ("noise_std", "prior_var"):
            if getattr(self, name) is not None:
                _require_within(name, getattr(self, name), 0, np.inf)
        self.inflations(dim=1)

    def inflations(self, dim: int) -> list[float]:
        """The inflations that ``inflation`` names, with d features."""
        try:
            numbers = [np.sqrt(dim) if word == "sqrt-d" else float(word) for word in self.inflation.split("/")]
            for number in numbers:
                _require_within("inflation", number, 0, np.inf)
        except ValueError:
            raise ValueError(
                f"inflation must be a positive number, sqrt-d, or several of them such as 0.1/1/10, not "
                f"{self.inflation!r}."
            ) from None
        return numbers

    def make(self, known: Known) -> LinearAgent:
        widest = known.weight_norm**2 / known.dim
        prior_var = widest if self.prior_var is None else self.prior_var
        if self.prior_mean == 0 and prior_var < widest * (1 - 1e-9):  # how far weights are from another mean is unknown
            warnings.warn(
                f"The prior variance {prior_var:.3g} is below L_omega^2 / d = {widest:.3g} (lambda above sigma^2 d / "
                "L_omega^2): the prior nearly rules out the true weights, so regret can be linear. Raise prior_var.",
                PriorScaleWarning,
                stacklevel=2,
            )
        prior = Prior(prior_var, Fixed(_noise_std(known, self.noise_std) ** 2), self.prior_mean)
        confidence = None
        if self.target == "pessimistic":
            confidence = Confidence(known, ridge=prior.ridge, kind=self.radius, delta=self.delta)
        boldness = Boldness(self.inflations(known.dim), replicas=len(known.features))
        judge = linpsrl(self.target, boldness)
        return LinearAgent(known, prior, judge, confidence=confidence, boldness=boldness)


@dataclass(frozen=True)
class LSVIEpsilon:
    """Least-squares value iteration with epsilon-greedy exploration."""

    epsilon: float = setting(0.1, "probability of a uniform action", minimum=0, maximum=1)
    ridge: float = setting(0.1, "lambda")

    def __post_init__(self) -> None:
        _require_within("ridge (lambda)", self.ridge, 0, np.inf)

    def make(self, known: Known) -> LinearAgent:
        return LinearAgent(known, ridge_prior(self.ridge), lsvi, epsilon_greedy(self.epsilon))


@dataclass(frozen=True)
class LSVIBoltzmann:
    """Least-squares value iteration with Boltzmann exploration."""

    temperature: float = setting(0.05, "of the softmax over Q")
    ridge: float = setting(0.1, "lambda")

    def __post_init__(self) -> None:
        _require_within("temperature", self.temperature, 0, np.inf)
        _require_within("ridge (lambda)", self.ridge, 0, np.inf)

    def make(self, known: Known) -> LinearAgent:
        return LinearAgent(known, ridge_prior(self.ridge), lsvi, boltzmann(self.temperature))


@dataclass(frozen=True)
class LSVIUCB:
    """Least-squares value iteration with optimistic targets (Jin et al. 2020), whose theorem needs a linear MDP.

    The theorem's bonus is c d H sqrt(log(2 d T / delta)) for rewards in [0, 1]; here values are scaled by 1 / H.
    """

    constant: float = setting(1.0, "c, which the theorem leaves open", minimum=0)
    horizon_episodes: int = setting(10_000, "T in the logarithm", minimum=1)
    delta: float = setting(0.1, "the bonus may fail with this probability")
    ridge: float = setting(1.0, "lambda")

    def __post_init__(self) -> None:
        _require_within("delta", self.delta, 0, 1)
        _require_within("ridge (lambda)", self.ridge, 0, np.inf)

    def make(self, known: Known) -> LinearAgent:
        steps = self.horizon_episodes * known.horizon
        bonus = self.constant * known.dim * np.sqrt(np.log(2 * known.dim * steps / self.delta))
        return LinearAgent(known, ridge_prior(self.ridge), lsvi_ucb(bonus))


@dataclass(frozen=True)
class PSRL:
    """Exact tabular posterior sampling, a reference for small problems."""

    prior_count: float = setting(1.0, "total Dirichlet count of a state and action, over all successors")
    reward_prior_var: float = setting(1.0, "prior variance of a mean reward")
    noise_std: float | None = setting(None, "standard deviation of rewards; none: the problem's sigma")

    def __post_init__(self) -> None:
        _require_within("prior_count", self.prior_count, 0, np.inf)
        _require_within("reward_prior_var", self.reward_prior_var, 0, np.inf)
        if self.noise_std is not None:
            _require_within("noise_std", self.noise_std, 0, np.inf)

    def make(self, known: Known) -> TabularAgent:
        noise_var = _noise_std(known, self.noise_std) ** 2
        return TabularAgent(Counts(known, self.prior_count), psrl(known.gamma, self.reward_prior_var, noise_var))


@dataclass(frozen=True)
class Optimistic:
    """What UCBVI and UCRL2 share: how far means of n observations may be off, for all n, with probability 1 - delta."""

    delta: float = setting(0.1, "planned values may be below V* with this probability")
    scale: float = setting(1.0, "multiplies what is added for optimism; there is no guarantee below 1", minimum=0)
    noise_std: float | None = setting(
        None, "sub-Gaussian scale of a target's noise; none: the problem's sigma", minimum=0
    )

    def __post_init__(self) -> None:
        _require_within("delta", self.delta, 0, 1)

    def radius(self, known: Known, std: float, log_events: float) -> Callable[[Array], Array]:
        """scale std sqrt(2 log(events H S A n (n + 1) / delta) / n) after n visits, and 1, the range of V*, after none.

        Hoeffding's inequality fails with probability delta / (H S A n (n + 1)) at one cell and n: in sum, with delta.
        """
        cells = np.log(np.prod(known.features.shape[1:-1]) / self.delta)

        def radius(visits: Array) -> Array:
            n = np.maximum(visits, 1)
            return np.where(
                visits > 0, self.scale * std * np.sqrt(2 * (log_events + cells + np.log(n * (n + 1))) / n), 1
            )

        return radius

    def sigma(self, known: Known) -> float:
        return known.sigma if self.noise_std is None else self.noise_std


@dataclass(frozen=True)
class UCBVI(Optimistic):
    """Tabular optimism by bonuses (Azar et al. 2017), with Hoeffding's bonus."""

    def make(self, known: Known) -> TabularAgent:
        return TabularAgent(Counts(known), ucbvi(known.gamma, self.radius(known, self.sigma(known), 0.0)))


@dataclass(frozen=True)
class UCRL2(Optimistic):
    """Tabular optimism over plausible models (Jaksch et al. 2010), for episodes of H steps."""

    def make(self, known: Known) -> TabularAgent:
        # Half of delta each. The 1-norm is the largest of 2^S sums with signs, each of a variable of scale 1.
        rewards = self.radius(known, self.sigma(known), np.log(2))
        transitions = self.radius(known, 1.0, np.log(2) + known.states * np.log(2))
        return TabularAgent(Counts(known), ucrl2(known.gamma, rewards, transitions))


TABULAR: dict[str, type[Settings]] = {"psrl": PSRL, "ucbvi": UCBVI, "ucrl2": UCRL2}  # these use no features
AGENTS: dict[str, type[Settings]] = {
    "linpsrl": LinPSRL,
    "linucb": LinUCB,
    "lsvi-epsilon": LSVIEpsilon,
    "lsvi-boltzmann": LSVIBoltzmann,
    "lsvi-ucb": LSVIUCB,
    **TABULAR,
}
