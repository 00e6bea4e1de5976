"""The paper's cheap search: a trained agent's features stay as they are, and only what is fitted on them is chosen.

Its last layer gives way to a Bayesian one. Stage 1 tries B, prior_var and noise_var; stage 2, with the best of these,
T^BT and T^S. Every candidate plays by Thompson sampling and refits as in training, but no gradient step is taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.wrappers import TimeLimit
from torch import Tensor

from bdqn.config.resolve import Configuration, configure
from bdqn.config.seeding import integer_seed
from bdqn.config.settings import SettingError, Training, settings_of
from bdqn.envs import AtariSettings, Source, has_time_limit
from bdqn.envs.interaction import Episode
from bdqn.learner import Learner
from bdqn.qlearning import rules
from bdqn.qlearning.diagnostics import SpreadWarning
from bdqn.replay.buffer import Replay
from bdqn.runs import evaluation
from bdqn.runs.evaluation import check_can_evaluate
from bdqn.storage import checkpoint_files
from bdqn.storage.checkpoint_files import CheckpointError
from bdqn.storage.checkpoints import has_replay, read_replay
from bdqn.storage.saved_agents import find_agent, load

NEVER = 2**62  # decisions
LAST = "head.weights"  # a Bayesian head's mean, in the state of its network
STAGES = (
    ("posterior_batch_size", "prior_var", "noise_var"),
    ("posterior_update_interval", "sample_interval"),
)
# What a posterior needs to be fitted on features that do not learn, whatever the preset says.
FROZEN = {
    "train_freq": NEVER,
    "learning_starts": 1,
    "posterior_data": "replay",
    "last_layer": "regression",
    "acting": "thompson",
}


class Switch(NamedTuple):
    """A setting that decides whether a number counts, and the word that stands for the other case."""

    setting: str
    number: str
    word: str
    other: str


SWITCHES = {
    "noise_var": Switch("noise", "fixed", "learned", "inverse-gamma"),
    "sample_interval": Switch("redraw", "steps", "episode", "episode"),
}


@dataclass(frozen=True)
class Donor:
    """A trained agent that learns no more, and in its replay memory what the regression is to be fitted to."""

    learner: Learner
    given: Mapping[str, Any]  # settings of training and environment that it was given beside its preset's
    played: int = 0  # decisions that it played for its memory; 0: the memory is the run's own

    def __post_init__(self) -> None:
        check_can_evaluate(self.learner)
        agent, name = self.learner.agent, self.learner.configuration.agent
        if not agent.choices.learns:
            raise SettingError(f"{name} learns no features: give a run of ddqn, or of another agent that does.")
        if agent.choices.frozen_prior is not None or not hasattr(agent.online.head, "dense"):
            raise SettingError(
                f"The layers of {name} do not fit a Bayesian last layer: "
                "give a run of ddqn, or of another agent with its torso and dense layers."
            )

    @property
    def preset(self) -> str:
        """The preset's name as it can be typed."""
        configuration = self.learner.configuration
        return configuration.preset.removesuffix(f"-{configuration.family}")

    def configure(self, settings: Mapping[str, Any]) -> Configuration:
        """Bayesian DQN with this agent's training settings, its preset's for the posterior, and these."""
        own = self.learner.configuration
        values = {**asdict(own.training), **(asdict(own.atari) if own.family == "atari" else {})}
        return configure("bdqn", own.family, self.preset, {**values, **FROZEN, **settings})


@dataclass(frozen=True)
class Tried:
    """What came of playing with one candidate."""

    values: Mapping[str, Any]
    returns: tuple[float, ...]  # of complete episodes, in the environment's rewards
    decisions: int
    differs: float  # share of decisions in which the draw's action was not the mean's
    refits: int  # while it played
    cut: int = 0  # how many of the episodes did not end within ``max_steps``; they count up to there

    @property
    def mean(self) -> float:
        return fmean(self.returns)

    @property
    def standard_error(self) -> float:
        """Of the mean; NaN for a single episode."""
        return stdev(self.returns) / len(self.returns) ** 0.5 if len(self.returns) > 1 else float("nan")


@dataclass(frozen=True)
class Stage:
    """All candidates of a stage."""

    names: tuple[str, ...]
    tried: tuple[Tried, ...]

    @property
    def best(self) -> Tried:
        """The highest mean return; of equal ones the first."""
        return max(self.tried, key=lambda tried: tried.mean)


# --- whose features -----------------------------------------------------------------------------------------


def load_donor(path: Path, env: Source | None = None, *, device: str = "cpu", collect: int | None = None) -> Donor:
    """A run's newest agent with its replay memory; where it has none, or ``collect`` is given, it plays for one."""
    folder = find_agent(path)
    manifest = checkpoint_files.read(folder)
    about = manifest.about
    own = about["settings"]
    still: dict[str, Any] = {name: NEVER for name in ("train_freq", "posterior_update_interval") if name in own}
    if collect is None and not has_replay(manifest):
        collect = 10 * own["target_update_interval"]  # the paper's largest B
    size = max(own["buffer_size"], 2 * (collect or 0) + 8)  # a decision takes one frame, or two
    learner = load(folder, env, device=device, **still, buffer_size=size)
    try:
        preset = configure(about["agent"], about["family"], about["preset"].removesuffix(f"-{about['family']}")).values
        shared = settings_of(Training) | (settings_of(AtariSettings) if about["family"] == "atari" else {})
        given = {name: own[name] for name in shared if own.get(name, preset[name]) != preset[name]}
        donor = Donor(learner, given)
        if collect is not None:
            before = learner.num_timesteps
            learner.learn(collect)
            return replace(donor, played=learner.num_timesteps - before)
        try:
            read_replay(folder, manifest, learner.agent.replay)
        except CheckpointError as error:
            raise CheckpointError(f"{error} To play for transitions instead: --collect N.") from error
        return donor
    except BaseException:
        learner.envs.close()
        raise


def _bayesian(donor: Donor, settings: Mapping[str, Any], seed: int, limit: int | None = None) -> Learner:
    """A Bayesian DQN agent with the donor's features, and with a copy of its memory, at the start of an episode.

    Its episodes are cut after ``limit`` decisions, if there is one.
    """
    giver = donor.learner
    learner = Learner(
        donor.configure(settings),
        giver.env_source,
        seed=integer_seed(seed, "tune"),
        device=str(giver.agent.device),
        network=giver.network,
        env_kwargs=giver.env_kwargs,
    )
    agent = learner.agent
    theirs, own = giver.agent.online.state_dict(), agent.online.state_dict()
    last = _last_layer(theirs, own[LAST])
    network = {name: theirs[name] for name in own if name != LAST} | {LAST: last}
    agent.load_state(
        {
            **agent.state(),
            "online": network,
            "target": network,
            "indices": {"training": last, "acting": last[None]},
            "steps": agent.training.learning_starts,  # as when learning begins
            "reward_unit": giver.agent.targets.reward_unit,
        }
    )
    if limit is not None:
        learner.envs.close()
        seeds = [integer_seed(learner.seed, "environment-0")]  # the same as before, so it begins with the same
        learner.envs = learner.make_envs(seeds, wrap=lambda env: TimeLimit(env, limit))
    copy_memory(giver.agent.replay, agent.replay)
    agent.start(learner.envs.obs)
    return learner


def _last_layer(state: Mapping[str, Tensor], like: Tensor) -> Tensor:
    """The donor's own last layer: the first targets are valued by it, as no posterior has been fitted yet."""
    weights = state.get(LAST)
    if weights is None:
        weights = torch.cat([state["head.last.weight"], state["head.last.bias"][:, None]], dim=1)
    columns = min(weights.shape[1], like.shape[1])  # one of them may have no bias
    last = torch.zeros_like(like)
    last[:, :columns] = weights[:, :columns]
    return last


def copy_memory(source: Replay, into: Replay) -> None:
    """All transitions of a memory, environment by environment, into a new one of a single environment."""
    start = 0
    for env in range(source.num_envs):
        records = source.records(env, source.oldest(env), int(source.written[env]))
        frames = len(records["reach"])
        records["is_transition"] &= np.arange(frames) >= records["reach"]  # else its stack begins in frames long gone
        into.restore(0, start, {name: records[name] for name in into.record_layout()})
        start += frames


# --- what is tried ------------------------------------------------------------------------------------------


def paper_grid(target_update_interval: int) -> dict[str, list[Any]]:
    """The values that the paper tried, in its unit T^T; what costs less comes first."""
    period = target_update_interval
    return {
        "posterior_batch_size": [period, 10 * period],
        "prior_var": [1.0, 0.1, 0.001],
        "noise_var": [1.0, 10.0],
        "posterior_update_interval": [10 * period, period],
        "sample_interval": [max(1, period // 10), max(1, period // 100)],
    }


def candidates(donor: Donor, names: Sequence[str], given: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of a stage's values: the paper's where none are given.

    Where nothing is given for the whole stage, the preset's own values come first.
    """
    grid = {**paper_grid(donor.learner.configuration.training.target_update_interval), **given}
    found = [dict(zip(names, values, strict=True)) for values in product(*(grid[name] for name in names))]
    if not any(name in given for name in names):
        preset = configure("bdqn", donor.learner.configuration.family, donor.preset).values
        found.insert(0, {name: _word_or_number(preset, name) for name in names})
    return [values for i, values in enumerate(found) if values not in found[:i]]


def _word_or_number(preset: Mapping[str, Any], name: str) -> Any:
    switch = SWITCHES.get(name)
    return switch.word if switch and preset[switch.setting] != switch.number else preset[name]


def as_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """A candidate's values as settings of Bayesian DQN: a word in a number's place is a setting of its own."""
    settings: dict[str, Any] = {}
    for name, value in values.items():
        switch = SWITCHES.get(name)
        if switch:
            settings[switch.setting] = switch.other if value == switch.word else switch.number
        if switch is None or value != switch.word:
            settings[name] = value
    return settings


# --- trying it ----------------------------------------------------------------------------------------------


def play(
    donor: Donor,
    values: Mapping[str, Any],
    episodes: int,
    seed: int = 0,
    played: Callable[[int], None] = lambda episodes: None,
    max_steps: int | None = None,
) -> Tried:
    """Fit the posterior, then play complete episodes by Thompson sampling, with refits and draws as they are due.

    ``played`` is told after each episode how many there were. One is cut after ``max_steps`` decisions, or, as in
    evaluations, after MAX_STEPS where the environment has no time limit of its own.
    """
    limit = max_steps or (None if has_time_limit(donor.learner.envs.envs[0]) else evaluation.MAX_STEPS)
    learner = _bayesian(donor, as_settings(values), seed, limit)
    agent, envs = learner.agent, learner.envs
    fit = agent.choices.fit
    assert fit is not None
    finished: list[Episode] = []
    before, differing = agent.steps, 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpreadWarning)  # candidates may be bad; the table shows it
            agent.fit_last_layer()
            while len(finished) < episodes:
                view = agent.view(envs.obs, agent.draws.acting)
                actions = agent.choices.policy(view, agent.steps, agent.rngs["explore"])
                differing += int((actions != rules.greedy(view.mean)).sum())
                step = envs.step(actions)
                agent.observe(actions, step)
                if step.episodes:
                    finished += step.episodes
                    played(len(finished))
    finally:
        envs.close()
    decisions = agent.steps - before
    return Tried(
        dict(values),
        tuple(episode.raw_return for episode in finished),
        decisions,
        differing / decisions,
        decisions // fit.interval,
        cut=sum(episode.truncated and episode.length == limit for episode in finished),
    )


def search(
    donor: Donor,
    given: Mapping[str, Sequence[Any]],
    episodes: int,
    seed: int = 0,
    *,
    begin: Callable[[Sequence[str]], None] = lambda names: None,
    report: Callable[[Sequence[str], Tried], None] = lambda names, tried: None,
    progress: Callable[[float], None] = lambda share: None,
    max_steps: int | None = None,
) -> Iterator[Stage]:
    """Both stages, one after the other; each begins with the best of those before it. ``max_steps`` as in `play`.

    ``progress`` is told after each episode what share of all of them that was.
    """
    chosen: dict[str, Any] = {}
    ahead = [candidates(donor, names, given) for names in STAGES]
    total, before = episodes * sum(map(len, ahead)), 0

    def played(now: int) -> None:
        progress((before + now) / total)

    for names, combinations in zip(STAGES, ahead, strict=True):
        begin(names)
        tried = []
        for values in combinations:
            tried.append(play(donor, {**chosen, **values}, episodes, seed, played, max_steps))
            report(names, tried[-1])
            before += episodes
        stage = Stage(names, tuple(tried))
        chosen = dict(stage.best.values)
        yield stage
