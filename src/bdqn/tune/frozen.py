"""The paper's cheap search: freezes a trained agent's features and tunes only the posterior on top of them.

A Bayesian last layer replaces the agent's own. Stage 1 tries B, prior_var and noise_var; stage 2 tries T^BT and T^S
with the best of stage 1. Every candidate plays with Thompson sampling and refits as in training, without gradient
updates.
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
LAST = "head.weights"  # a Bayesian head's mean, in its network's state
STAGES = (
    ("posterior_batch_size", "prior_var", "noise_var"),
    ("posterior_update_interval", "sample_interval"),
)
# Settings for fitting a posterior on frozen features, whatever the preset says.
FROZEN = {
    "train_freq": NEVER,
    "learning_starts": 1,
    "posterior_data": "replay",
    "last_layer": "regression",
    "acting": "thompson",
}


class Switch(NamedTuple):
    """A setting that decides whether a number has an effect, and the word for the alternative."""

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
    """A trained agent with frozen features. Its replay buffer holds the data of the regression."""

    learner: Learner
    given: Mapping[str, Any]  # its overrides of the preset's training and environment settings
    played: int = 0  # decisions played to fill its replay buffer; 0: the buffer is the run's own

    def __post_init__(self) -> None:
        check_can_evaluate(self.learner)
        agent, name = self.learner.agent, self.learner.configuration.agent
        if not agent.choices.learns:
            raise SettingError(f"{name} learns no features: use a run of ddqn, or of another agent that does.")
        if agent.choices.frozen_prior is not None or not hasattr(agent.online.head, "dense"):
            raise SettingError(
                f"{name} has more in its network than a torso and dense layers, on which plain bdqn could be fitted: "
                "use a run of ddqn, or of another agent with that network."
            )

    @property
    def preset(self) -> str:
        """The preset's name as users type it."""
        configuration = self.learner.configuration
        return configuration.preset.removesuffix(f"-{configuration.family}")

    def configure(self, settings: Mapping[str, Any]) -> Configuration:
        """Configure Bayesian DQN with this agent's training settings, its preset's posterior and these overrides."""
        own = self.learner.configuration
        values = {**asdict(own.training), **(asdict(own.atari) if own.family == "atari" else {})}
        return configure("bdqn", own.family, self.preset, {**values, **FROZEN, **settings})


@dataclass(frozen=True)
class Tried:
    """The result of one candidate."""

    values: Mapping[str, Any]
    returns: tuple[float, ...]  # raw returns of complete episodes
    decisions: int
    differs: float  # share of decisions in which the sampled action is not the mean's
    refits: int  # while playing
    cut: int = 0  # episodes truncated at ``max_steps``; their returns count up to there

    @property
    def mean(self) -> float:
        return fmean(self.returns)

    @property
    def standard_error(self) -> float:
        """Standard error of the mean; NaN for a single episode."""
        return stdev(self.returns) / len(self.returns) ** 0.5 if len(self.returns) > 1 else float("nan")


@dataclass(frozen=True)
class Stage:
    """The results of all candidates of a stage."""

    names: tuple[str, ...]
    tried: tuple[Tried, ...]

    @property
    def best(self) -> Tried:
        """The candidate with the highest mean return; ties go to the first."""
        return max(self.tried, key=lambda tried: tried.mean)


# --- the frozen agent ---------------------------------------------------------------------------------------


def load_donor(path: Path, env: Source | None = None, *, device: str = "cpu", collect: int | None = None) -> Donor:
    """Load a run's newest agent with its replay buffer. Without one, or with ``collect``, it plays to fill one."""
    folder = find_agent(path)
    manifest = checkpoint_files.read(folder)
    about = manifest.about
    own = about["settings"]
    still: dict[str, Any] = {name: NEVER for name in ("train_freq", "posterior_update_interval") if name in own}
    if collect is None and not has_replay(manifest):
        collect = 10 * own["target_update_interval"]  # the paper's largest B
    size = max(own["buffer_size"], 2 * (collect or 0) + 8)  # a decision takes one or two frames
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
            raise CheckpointError(f"{error} To collect new transitions instead, use --collect N.") from error
        return donor
    except BaseException:
        learner.envs.close()
        raise


def _bayesian(donor: Donor, settings: Mapping[str, Any], seed: int, limit: int | None = None) -> Learner:
    """Create a Bayesian DQN agent with the donor's features and a copy of its replay buffer.

    It is at the start of an episode. ``limit`` truncates its episodes after so many decisions.
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
            "steps": agent.training.learning_starts,  # as when learning starts
            "reward_unit": giver.agent.targets.reward_unit,
        }
    )
    if limit is not None:
        learner.envs.close()
        seeds = [integer_seed(learner.seed, "environment-0")]  # the same seed, so the first episode is the same
        learner.envs = learner.make_envs(seeds, wrap=lambda env: TimeLimit(env, limit))
    copy_replay(giver.agent.replay, agent.replay)
    agent.start(learner.envs.obs, allowed=learner.envs.allowed)
    return learner


def _last_layer(state: Mapping[str, Tensor], like: Tensor) -> Tensor:
    """Return the donor's last layer. It values the first targets, before any posterior is fitted."""
    weights = state.get(LAST)
    if weights is None:
        weights = torch.cat([state["head.last.weight"], state["head.last.bias"][:, None]], dim=1)
    columns = min(weights.shape[1], like.shape[1])  # one of the two may have no bias
    last = torch.zeros_like(like)
    last[:, :columns] = weights[:, :columns]
    return last


def copy_replay(source: Replay, into: Replay) -> None:
    """Copy all transitions of a replay buffer into a new one with a single environment."""
    start = 0
    for env in range(source.num_envs):
        records = source.records(env, source.oldest(env), int(source.written[env]))
        frames = len(records["reach"])
        records["is_transition"] &= (
            np.arange(frames) >= records["reach"]
        )  # otherwise its stack starts in overwritten frames
        into.restore(0, start, {name: records[name] for name in into.record_layout()})
        start += frames


# --- candidates ---------------------------------------------------------------------------------------------


def paper_grid(target_update_interval: int) -> dict[str, list[Any]]:
    """Return the values that the paper tried, in units of T^T, cheapest first."""
    period = target_update_interval
    return {
        "posterior_batch_size": [period, 10 * period],
        "prior_var": [1.0, 0.1, 0.001],
        "noise_var": [1.0, 10.0],
        "posterior_update_interval": [10 * period, period],
        "sample_interval": [max(1, period // 10), max(1, period // 100)],
    }


def candidates(donor: Donor, names: Sequence[str], given: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of a stage's values. Defaults are the paper's.

    If no value of the stage is given, the preset's own values come first.
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
    """Convert a candidate's values to settings of Bayesian DQN. A word in place of a number sets the switch."""
    settings: dict[str, Any] = {}
    for name, value in values.items():
        switch = SWITCHES.get(name)
        if switch:
            settings[switch.setting] = switch.other if value == switch.word else switch.number
        if switch is None or value != switch.word:
            settings[name] = value
    return settings


# --- search -------------------------------------------------------------------------------------------------


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
                view = agent.view(envs.obs, agent.draws.acting, envs.allowed)
                actions = agent.choices.policy(view, agent.steps, agent.rngs["explore"])
                differing += int((actions != rules.greedy(view.mean, view.allowed)).sum())
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
    """Run both stages. Stage 2 starts from the best candidate of stage 1. ``max_steps`` is as in `play`.

    Calls ``progress`` after each episode with the fraction of episodes played.
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
