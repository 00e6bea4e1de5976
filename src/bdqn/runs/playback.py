"""Playing an episode for the eye: what the environment showed, what the agent believed, and what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bdqn.config.seeding import generator, integer_seed
from bdqn.envs import Environments
from bdqn.envs.products import ProductSpace
from bdqn.envs.records import RecordSpace
from bdqn.learner import Learner
from bdqn.qlearning import action_probabilities
from bdqn.qlearning.acting import Actor
from bdqn.qlearning.calibration import Outcomes
from bdqn.qlearning.rules import Allowed
from bdqn.runs.evaluation import check_can_evaluate
from bdqn.runs.outcomes import known_outcomes, returns_from, reward_limit
from bdqn.runs.recording import Array, Picture, Recording

WIDEST = 320  # pixels of a picture; wider ones are averaged over blocks
SAMPLES = 400  # draws behind a probability


class _Moment(NamedTuple):
    """One decision."""

    seen: Picture | Array
    obs: NDArray[Any]
    allowed: NDArray[np.bool_] | None  # (actions,)
    mean: NDArray[Any]  # (actions,), in the learner's unit
    draw: NDArray[Any]
    redrawn: bool
    kind: str  # of the draw; empty where there is only one
    action: int
    reward: float
    ended: bool
    terminal: bool  # nothing of value beyond, as the learner is told: at a lost life, perhaps


def record(
    learner: Learner,
    *,
    max_steps: int = 500,
    episodes: int = 1,
    greedy: bool = False,
    seed: int = 0,
    film: Callable[[Picture], None] | None = None,
) -> Recording:
    """Play until so many episodes have ended or decisions were taken; the learner is left as it was.

    It acts as it does in training: by its draws, or with its epsilon; ``greedy`` follows the mean instead. ``film`` is
    given every picture in its full size.
    """
    check_can_evaluate(learner)
    envs, painter = _environment(learner, seed)
    painter.film = film
    moments: list[_Moment] = []
    try:
        if film is not None and not painter.pictures:
            raise ValueError(_cannot_be_filmed(learner, painter))
        for moment in _play(learner, envs, painter, greedy, generator(seed, "watch")):
            moments.append(moment)
            if len(moments) == max_steps or sum(m.ended for m in moments) == episodes:
                break
    finally:
        envs.close()
    seen, obs, allowed, mean, draw, redrawn, kind, action, reward, ended, terminal = map(
        list, zip(*moments, strict=True)
    )
    unit = learner.reward_unit
    masks = None if envs.allowed is None else np.array(allowed)
    centre, std, predictive_std, best = _belief(learner, np.array(obs), masks)
    rewards, over, clip = np.array(reward), np.array(ended), reward_limit(learner)
    outcome = returns_from(rewards.clip(-clip, clip), over, np.array(terminal), learner.configuration.training.gamma)
    facts = _facts(learner, rewards, over, painter, greedy)
    if std is not None and predictive_std is not None:
        chosen = np.arange(len(over)), np.array(action)
        beliefs = np.array([part[chosen] for part in (unit * np.array(mean, np.float64), std, predictive_std)])
        facts |= _verdicts(learner, known_outcomes(over, beliefs, outcome), greedy)
    return Recording(
        title=f"{learner.configuration.agent} on {learner.env_name}",
        facts=facts,
        actions=_action_names(learner),
        pictures=seen if painter.pictures else [],
        observations=np.empty((len(moments), 0)) if painter.pictures else scaled(np.array(seen)),
        mean=unit * np.array(mean, np.float64),
        draw=unit * np.array(draw, np.float64),
        std=std,
        predictive_std=predictive_std,
        best=best,
        action=np.array(action),
        redrawn=np.array(redrawn),
        reward=rewards,
        ended=over,
        outcome=outcome,
        allowed=masks,
        centre=centre,
        kind=tuple(kind) if any(kind) else (),
    )


def _cannot_be_filmed(learner: Learner, painter: _Painter) -> str:
    why = painter.remark or "it renders no rgb_array, or was not made by its id"
    return f"{learner.env_name} shows no pictures to film, and its observations are none ({why})."


def _play(
    learner: Learner, envs: Environments, painter: _Painter, greedy: bool, rng: np.random.Generator
) -> Iterator[_Moment]:
    """Decisions without end; a draw lasts as long as it does in training."""
    actor = Actor(learner.agent, rng, greedy=greedy)
    while True:
        redrawn, kind = actor.redrawn, "".join(actor.kinds)
        obs = envs.obs.copy()
        seen = painter.paint(envs.envs[0], obs[0])
        view = actor.view(obs, envs.allowed)
        action = actor.choose(view)
        step = envs.step(action)
        actor.advance(step.ended, step.reward, step.obs)
        believed = (view.mean[0], view.draw[0], redrawn, kind)
        reward, ended, terminal = float(step.reward[0]), bool(step.ended[0]), bool(step.terminal[0])
        allowed = None if view.allowed is None else view.allowed[0]
        yield _Moment(seen, obs[0], allowed, *believed, int(action[0]), reward, ended, terminal)


def _belief(
    learner: Learner, obs: NDArray[Any], allowed: Allowed
) -> tuple[Array | None, Array | None, Array | None, Array | None]:
    """Centre, spreads and probabilities at all observations at once: a posterior's, or those of a few draws."""
    draws, unit = learner.agent.view(obs).draws, learner.reward_unit
    centre = None if draws is None else unit * draws.mean(0)
    if learner.agent.online.head.posterior is not None:
        q = learner.q_posterior(obs)
        return centre, q.std, q.predictive_std, learner.optimal_action_probabilities(obs, SAMPLES, allowed)
    if draws is None:
        return None, None, None, None
    return centre, unit * draws.std(0), None, action_probabilities.optimal_action_probabilities(draws, allowed)


def _verdicts(learner: Learner, found: Outcomes, greedy: bool) -> dict[str, str]:
    """Whether intervals hold the returns that followed."""
    policy = "" if greedy else "; it explores here, while Q is of the greedy policy"
    verdicts = {"by the std of Q": f"{found.coverage()}{policy}"}
    if learner.calibration is not None:
        verdicts["calibrated"] = f"{found.calibrated_coverage(learner.calibration)}{policy}"
    return verdicts


def scaled(numbers: Array) -> Array:
    """Each column in units of its largest size: declared bounds are often far from what is seen."""
    return np.asarray(numbers / np.maximum(np.abs(numbers).max(0), 1e-9))


def _facts(
    learner: Learner, reward: Array, ended: NDArray[np.bool_], painter: _Painter, greedy: bool
) -> dict[str, str]:
    kept, clip = learner.agent.view(learner.envs.obs).draws, reward_limit(learner)
    belief = "" if kept is None else f"bells and P(best) are those of the {len(kept)} Q-functions that it picks from"
    q = f"of rewards clipped to ±{clip:g}, as it learns; the rewards and returns shown are not clipped"
    return {
        "agent": f"{learner.configuration.agent}, preset {learner.configuration.preset}, seed {learner.seed}",
        "trained for": f"{learner.num_timesteps:,} decisions",
        "acts": "greedily under the mean" if greedy else "as in training",
        "shown": shown(reward, ended),
        **({"Q": q} if np.isfinite(clip) else {}),
        **({"belief": belief} if belief else {}),
        **({"picture": painter.remark} if painter.remark else {}),
    }


def shown(reward: Array, ended: NDArray[np.bool_]) -> str:
    """How long it played, and the return of each episode, one that was cut short apart from the others."""
    *complete, rest = np.split(reward, np.flatnonzero(ended) + 1)
    parts = [f"{len(reward):,} decisions"]
    if complete:
        parts.append(f"returns of complete episodes: {', '.join(f'{episode.sum():g}' for episode in complete)}")
    if len(rest):
        parts.append(f"the last episode was cut short, at a return of {rest.sum():g}")
    return "; ".join(parts)


def _action_names(learner: Learner) -> tuple[str, ...]:
    """As the environment calls them, where it does."""
    space = learner.envs.action_space
    meanings = getattr(learner.envs.envs[0].unwrapped, "get_action_meanings", None)
    names = meanings() if callable(meanings) else [f"action {space.start + i}" for i in range(space.n)]
    if isinstance(space, ProductSpace):
        names = [str(space.combination(i).ravel().tolist()) for i in range(space.n)]
    return tuple(map(str, names))


# --- what is shown ------------------------------------------------------------------------------------------------


class _Painter:
    """Turns a moment into a picture, or into bars."""

    def __init__(self, env: gym.Env[Any, Any], *, renders: bool, remark: str = "") -> None:
        self.space, self.renders, self.remark = env.observation_space, renders, remark
        parts = self.space.leaves if isinstance(self.space, RecordSpace) else (self.space,)
        self.pictures = renders or any(len(part.shape or ()) >= 2 for part in parts)
        self.film: Callable[[Picture], None] | None = None

    def paint(self, env: gym.Env[Any, Any], obs: NDArray[Any]) -> Picture | Array:
        if isinstance(self.space, RecordSpace):
            leaves = list(self.space.unpack(obs).values())
            pictures = [leaf for leaf in leaves if leaf.ndim > 1]
            obs = pictures[0] if pictures else np.concatenate([leaf.ravel().astype(np.float64) for leaf in leaves])
        if self.pictures:
            picture = np.asarray(env.render(), np.uint8) if self.renders else grid_picture(obs)
            if self.film is not None:
                self.film(picture)
            return compact(picture) if self.renders else picture
        if isinstance(self.space, spaces.Discrete):
            states: Array = np.eye(int(self.space.n))
            return np.asarray(states[int(obs) - int(self.space.start)])
        return obs.ravel().astype(np.float64)


def _environment(learner: Learner, seed: int) -> tuple[Environments, _Painter]:
    """An environment like the learner's that can be looked at: by its own pictures, else by its observations."""
    seeds = [integer_seed(seed, "watch-environment")]
    own = learner.env_kwargs
    modes = learner.envs.envs[0].metadata.get("render_modes") or ()
    if "rgb_array" in modes and isinstance(learner.env_source, str):
        learner.env_kwargs = {**own, "render_mode": "rgb_array"}
        try:
            envs = learner.make_envs(seeds, evaluation=True)
            envs.envs[0].render()
            return envs, _Painter(envs.envs[0], renders=True)
        except gym.error.DependencyNotInstalled as error:
            remark = f"the observation instead of the environment's own picture ({error})"
        finally:
            learner.env_kwargs = own
    else:
        remark = ""
    envs = learner.make_envs(seeds, evaluation=True)
    return envs, _Painter(envs.envs[0], renders=False, remark=remark)


def compact(picture: Picture) -> Picture:
    """The smallest picture that shows the same: blocks of one colour become pixels, wide ones are averaged."""
    height, width = picture.shape[:2]
    for factor in range(min(height, width), 1, -1):
        if height % factor == width % factor == 0:
            small = picture[::factor, ::factor]
            if np.array_equal(small.repeat(factor, 0).repeat(factor, 1), picture):
                return np.ascontiguousarray(small)
    thin = -(-width // WIDEST)
    if thin == 1:
        return np.ascontiguousarray(picture)
    whole = np.pad(picture, ((0, -height % thin), (0, -width % thin), (0, 0)), "edge")
    blocks = whole.reshape(whole.shape[0] // thin, thin, whole.shape[1] // thin, thin, -1)
    # Every pixel counts: of a line that is one pixel wide, every n-th might show nothing.
    return np.asarray(blocks.mean((1, 3)).round(), np.uint8)


def grid_picture(obs: NDArray[Any]) -> Picture:
    """A grid of numbers as colours, dark to bright; the cells of a board can be told apart."""
    values = obs.astype(np.float64)
    while values.ndim > 2:
        values = values.max(0 if values.shape[0] < values.shape[-1] else -1)
    low, high = values.min(), values.max()
    share = (values - low) / (high - low) if high > low else np.zeros_like(values)
    checks = (np.indices(values.shape).sum(0) % 2) * 0.06  # a chessboard, barely
    dark, bright = np.array([18.0, 52.0, 86.0]), np.array([255.0, 214.0, 92.0])
    shade = dark * (1 + checks[..., None] * 3)
    picture: Picture = (shade + share[..., None] * (bright - shade)).clip(0, 255).astype(np.uint8)
    return picture
