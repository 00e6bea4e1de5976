"""Search files: a sweep file with one agent in one environment, and a search space.

    steps = 20_000
    seeds = 2                                               # per trial
    environments = ["CartPole-v1"]
    trials = 30
    objective = "area"                                      # or final, evaluation: a score of bdqn compare

    [agents.bdqn]

    [search]
    prior_var = { low = 1e-3, high = 10.0, log = true }     # a range
    redraw = ["episode", "steps"]                           # choices

Everything is validated before anything starts. Imports no torch, no Optuna.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from bdqn.config.resolve import configure, known_settings, unread
from bdqn.config.settings import Setting, SettingError, nearest
from bdqn.report.compare import SCORES
from bdqn.sweep.plan import KEYS, Sweep, errors_naming, read_content, sweep_of

OWN_KEYS = {"trials": int, "objective": str, "search": dict, "sampler_seed": int}
RANGE_KEYS = {"low", "high", "log"}


@dataclass(frozen=True)
class Range:
    """An inclusive range of numbers. ``log``: sample uniformly on a logarithmic scale."""

    low: float
    high: float
    log: bool
    whole: bool


Choices = tuple[Any, ...]


@dataclass(frozen=True)
class Search:
    """A search space, and the sweep that each trial runs."""

    trials: int
    objective: str
    sampler_seed: int
    space: Mapping[str, Range | Choices]
    content: Mapping[str, Any]  # the sweep file without the search

    @property
    def group(self) -> str:
        name: str = next(iter(self.content["agents"]))
        return name

    @property
    def fingerprint(self) -> str:
        """A hash that identifies the search: of everything but the number of trials."""
        parts = [self.objective, self.sampler_seed, repr(sorted(self.space.items())), self.content]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def sweep(self, number: int, values: Mapping[str, Any]) -> Sweep:
        """Return the runs of one trial, one per seed."""
        own = {"agent": self.group, **self.content["agents"][self.group], **values}
        counting = {name: value for name, value in own.items() if name not in self._unread(own)}
        return sweep_of({**self.content, "agents": {f"{self.group} {number}": counting}}, imports=True)

    def _unread(self, own: Mapping[str, Any]) -> list[str]:
        """Return the proposed settings that have no effect, given the proposed value of their switch."""
        asked = {**self.content.get("training", {}), **own}
        preset = self.content.get("preset", "default")
        agent = asked.pop("agent")
        settings = configure(agent, _family(self.content["environments"][0]), preset, saved=asked).agent_settings
        return [name for name, (switch, _) in unread(settings, own).items() if switch in self.space]


def read_search(path: Path) -> Search:
    """Read and validate a search file. An error raises a SettingError that names the file and the key."""
    content = read_content(path)
    with errors_naming(path):
        return _search(content)


def _search(content: Mapping[str, Any]) -> Search:
    known = {key for key in (*KEYS, *OWN_KEYS) if key != "scales"}  # all trials of a search have the same length
    for key, value in content.items():
        if key not in known:
            raise SettingError(f"unknown key {key!r}; {nearest(key, known)}")
        if key in OWN_KEYS and (not isinstance(value, OWN_KEYS[key]) or isinstance(value, bool)):
            raise SettingError(f"{key} cannot be {value!r:.80}.")
    rest = {key: value for key, value in content.items() if key not in OWN_KEYS}
    sweep = sweep_of(rest, imports=True)
    first = sweep.trials[0]
    if len({(trial.env, trial.group) for trial in sweep.trials}) > 1:
        raise SettingError("a search needs exactly one agent and one environment, and no lists of settings.")
    if not content.get("search"):
        raise SettingError("search must be given and not empty: a table of settings with ranges or choices.")
    objective, trials, sampler_seed = _how(content, rest, sweep.steps)
    space = {}
    settings = known_settings(first.agent, _family(first.env))
    for name, given in content["search"].items():
        if name not in settings:
            raise SettingError(f"search: {first.agent} has no setting {name!r}; {nearest(name, settings)}")
        if name in first.settings:
            raise SettingError(f"search: {name} is also set to {first.settings[name]!r}: remove one of the two.")
        space[name] = _dimension(settings[name], given)
    search = Search(trials, objective, sampler_seed, space, rest)
    search.sweep(0, {name: d.low if isinstance(d, Range) else d[0] for name, d in space.items()})
    return search


def _family(env: str) -> str:
    from bdqn.envs import family  # imported here, because --help needs no Gymnasium

    return family(env)


def _how(content: Mapping[str, Any], rest: Mapping[str, Any], steps: int) -> tuple[str, int, int]:
    """Return the objective, the number of trials and the sampler's seed."""
    objective, trials, seed = content.get("objective", "area"), content.get("trials", 0), content.get("sampler_seed", 0)
    if objective not in SCORES:
        raise SettingError(f"unknown objective {objective!r}; {nearest(objective, SCORES)}")
    if objective == "evaluation" and not 1 <= rest.get("schedule", {}).get("eval_freq", 0) <= steps:
        raise SettingError(f"objective evaluation needs eval_freq in schedule, between 1 and {steps:,} (steps).")
    if trials < 1:
        raise SettingError(f"trials must be given and at least 1, not {trials}.")
    if seed < 0:
        raise SettingError(f"sampler_seed must be at least 0, not {seed}.")
    return objective, trials, seed


def _dimension(setting: Setting, given: Any) -> Range | Choices:
    where = f"search: {setting.name}"
    try:
        if isinstance(given, list):
            return _choices(setting, given)
        if isinstance(given, dict):
            return _range(setting, given)
    except SettingError as error:
        raise SettingError(f"{where}: {error}") from error
    raise SettingError(f"{where} must be a list of choices, or {{ low = ..., high = ... }}, not {given!r:.80}.")


def _choices(setting: Setting, given: list[Any]) -> Choices:
    if len(given) < 2 or any(value in given[:i] for i, value in enumerate(given)):
        raise SettingError(f"choices must be two or more different values, not {given!r:.80}.")
    for value in given:
        setting.check(value)
    return tuple(given)


def _range(setting: Setting, given: Mapping[str, Any]) -> Range:
    for key in given:
        if key not in RANGE_KEYS:
            raise SettingError(f"a range has no key {key!r}; {nearest(key, RANGE_KEYS)}")
    kinds = set(typing.get_args(setting.type)) or {setting.type}
    if not kinds & {int, float} or setting.choices:
        raise SettingError("only numbers can have a range: give a list of choices.")
    if "low" not in given or "high" not in given:
        raise SettingError("a range needs both low and high.")
    low, high, log = given["low"], given["high"], given.get("log", False)
    for value in (low, high):
        setting.check(value)
    if not isinstance(log, bool):
        raise SettingError(f"log must be true or false, not {log!r:.80}.")
    if not low < high or (log and low <= 0):
        raise SettingError(
            f"low must be less than high{', and positive with log' if log else ''}, not {low} and {high}."
        )
    return Range(low, high, log, whole=float not in kinds)
