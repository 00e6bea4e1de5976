"""A sweep file, and the trials that it means.

    steps = 200_000
    seeds = 10                                  # 0 to 9; or a list
    environments = ["MinAtar/Breakout-v1"]

    [training]                                  # shared by all agents
    learning_rate = 2.5e-4

    [agents.bdqn]                               # a group of trials; its name is the agent's, unless it says another

    [agents.careful]
    agent = "ddqn"
    exploration_final_eps = [0.1, 0.01]         # a list is a grid: one group per value

    [scales.quick]                              # a part of it, for those in a hurry: bdqn sweep FILE --scale quick
    steps = 50_000
    seeds = 2

Everything is checked before anything starts. A trial is named after a hash of its whole configuration but its length,
so that the same trial is the same directory in every sweep, and a longer sweep goes on with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from bdqn.config.resolve import configure
from bdqn.config.settings import MOST_ENVIRONMENTS, SettingError, Supervision, build, nearest, settings_of
from bdqn.networks.device import check_threads
from bdqn.runs.schedule import Schedule
from bdqn.storage import safe_files

KEYS = {
    "steps": int,
    "seeds": (int, list),
    "environments": list,
    "agents": dict,
    "preset": str,
    "num_envs": int,
    "threads": int,
    "training": dict,
    "schedule": dict,
    "supervision": dict,
    "scales": dict,
}
SCALED = {key: KEYS[key] for key in ("steps", "seeds", "environments")}  # of which a scale may take less
FULL = "full"  # the scale that is the file as it is
LONGEST_NAME = 80
MOST_SEEDS = 10_000  # a single agent's; more is a slip of the keyboard
REQUIRED = ("steps", "seeds", "environments", "agents")


@dataclass(frozen=True, eq=False)
class Trial:
    """One run of a sweep."""

    group: str
    agent: str
    env: str
    seed: int
    preset: str = "default"
    num_envs: int = 1
    threads: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)  # those that the preset does not decide
    schedule: Mapping[str, Any] = field(default_factory=dict)
    supervision: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)  # all settings

    @property
    def label(self) -> str:
        """What a person calls it."""
        return f"{self.group} on {self.env}, seed {self.seed}"

    @property
    def name(self) -> str:
        """A hash of everything that determines its files, but how long it is."""
        said = {**asdict(self), "group": None}
        if not self.supervision:  # so that trials have the names that they had before there was any
            del said["supervision"]
        text = json.dumps(said, sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]

    def command(self, folder: Path, steps: int) -> list[str]:
        """What ``bdqn`` is to be told to begin this trial, or to go on with it."""
        if (folder / "config.toml").exists():
            # The environment again: the sweep file decides what is imported for it, and not the run's own files.
            return ["resume", str(folder), "--env", self.env, "--steps", str(steps), "--quiet"]
        given = {
            "env": self.env,
            "agent": self.agent,
            "preset": self.preset,
            "seed": self.seed,
            "num_envs": self.num_envs,
            "threads": self.threads,
            **self.schedule,
            **self.supervision,
            **self.settings,
            "steps": steps,
            "out": folder,
        }
        words = (word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", _word(value)))
        return ["train", "--quiet", *words]


@dataclass(frozen=True)
class Sweep:
    """All trials of a file, and how many decisions each takes."""

    steps: int
    trials: tuple[Trial, ...]


def read_sweep(path: Path, scale: str = FULL, *, imports: bool = False) -> Sweep:
    """Read and check a sweep file, and take of it what a scale asks for.

    Whatever is wrong with it, in this scale or another, is a SettingError with the file and the key. Modules that its
    environments name (``module:Name-v0``) are imported only if ``imports`` says so: that runs their code.
    """
    scales = read_scales(path, imports=imports)
    if scale not in scales:
        raise SettingError(f"{path}: there is no scale {scale!r}; {nearest(scale, scales)}")
    return scales[scale]


def read_scales(path: Path, *, imports: bool = False) -> dict[str, Sweep]:
    """All of a file's scales by their names, the full one first."""
    content = read_content(path)
    with naming(path):
        full = sweep_of(content, imports=imports)
        return {FULL: full, **_smaller(content, full.trials)}


def read_content(path: Path) -> dict[str, Any]:
    """A TOML file's content."""
    try:
        return safe_files.read_given(path)
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}.") from error


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors in here are about this file."""
    try:
        yield
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from error


def sweep_of(content: Mapping[str, Any], *, imports: bool = False) -> Sweep:
    """All trials that a sweep file's content means, checked."""
    _check_types(content, KEYS)
    _check_values(content)
    trials = tuple(_trials(content, imports))
    _check_different(trials)
    return Sweep(content["steps"], trials)


def _smaller(content: Mapping[str, Any], trials: Sequence[Trial]) -> dict[str, Sweep]:
    """The smaller sweeps that a file names: fewer trials, and shorter ones, but no others.

    So the full sweep goes on with whatever a smaller one has done.
    """
    found = {}
    for name, own in content.get("scales", {}).items():
        try:
            _check_scale(name, own, content)
        except SettingError as error:
            raise SettingError(f"scales.{name}: {error}") from error
        scaled = {**content, **own}
        seeds, envs = set(_seeds(scaled["seeds"])), set(scaled["environments"])
        mine = tuple(trial for trial in trials if trial.seed in seeds and trial.env in envs)
        found[name] = Sweep(scaled["steps"], mine)
    return found


def _check_scale(name: str, own: Any, content: Mapping[str, Any]) -> None:
    if name == FULL:
        raise SettingError("the file as it is has this name already: choose another.")
    if not isinstance(own, dict) or not own:
        raise SettingError(f"this must be a table with {', '.join(SCALED)}, or some of them.")
    _check_types(own, SCALED)
    _check_values({**content, **own})
    if own.get("steps", 1) > content["steps"]:
        raise SettingError(f"steps must be at most the file's {content['steps']:,}, not {own['steps']:,}.")
    strange = set(_seeds(own.get("seeds", content["seeds"]))).difference(_seeds(content["seeds"]))
    if strange:
        raise SettingError(f"seeds must be among the file's: {', '.join(map(str, sorted(strange)[:5]))} are not.")
    for env in own.get("environments", []):
        if env not in content["environments"]:
            raise SettingError(f"{env} is not among the file's environments; {nearest(env, content['environments'])}")


def _check_different(trials: Sequence[Trial]) -> None:
    """Refuse a trial that would do the same as another, or be known by the same name."""
    runs: dict[Any, Trial] = {}
    names: dict[Any, Trial] = {}
    for trial in trials:
        place = (trial.env, trial.seed)
        other = runs.setdefault((*place, trial.agent, *sorted(trial.values.items())), trial)
        if other is not trial:
            raise SettingError(
                f"two trials are the same: {other.group} and {trial.group} on {trial.env}, seed {trial.seed}."
            )
        if names.setdefault((*place, trial.group), trial) is not trial:
            raise SettingError(f"two groups are called {trial.group}: give one of them another name.")


def _check_types(values: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if key not in known:
            raise SettingError(f"there is no key {key!r}; {nearest(key, known)}")
        if not isinstance(value, known[key]) or isinstance(value, bool):
            raise SettingError(f"{key} cannot be {value!r:.80}.")


def _check_values(content: Mapping[str, Any]) -> None:
    missing = [key for key in REQUIRED if not content.get(key)]
    if missing:
        raise SettingError(f"{', '.join(missing)} must be given, and not be empty.")
    for key in ("steps", "num_envs"):
        if content.get(key, 1) < 1:
            raise SettingError(f"{key} must be at least 1, not {content[key]}.")
    check_threads(content.get("threads", 1))
    if content.get("num_envs", 1) > MOST_ENVIRONMENTS:
        raise SettingError(f"num_envs must be at most {MOST_ENVIRONMENTS}, not {content['num_envs']}.")
    for env in content["environments"]:
        if not isinstance(env, str):
            raise SettingError(f"environments must be Gymnasium ids, not {env!r:.80}.")


def _trials(content: Mapping[str, Any], imports: bool) -> Iterator[Trial]:
    schedule = _part("schedule", content.get("schedule", {}), settings_of(Schedule))
    build(Schedule, schedule)
    supervision = _part("supervision", content.get("supervision", {}), settings_of(Supervision))
    build(Supervision, supervision)
    for env, (name, own) in product(content["environments"], content["agents"].items()):
        if not name or not name.isprintable() or len(name) > LONGEST_NAME:
            raise SettingError(f"agents.{name!r:.80} must be a name of 1 to {LONGEST_NAME} printable characters.")
        if not isinstance(own, dict):
            raise SettingError(f"agents.{name} must be a table, not {own!r:.80}.")
        agent = own.get("agent", name)
        if not isinstance(agent, str):
            raise SettingError(f"agents.{name}: agent must be the name of one agent, not {agent!r:.80}.")
        axes = {**content.get("training", {}), **{key: value for key, value in own.items() if key != "agent"}}
        for suffix, settings in _grid(axes):
            try:
                kind = _family(env, imports)
                values = configure(agent, kind, content.get("preset", "default"), settings).values
            except (SettingError, ValueError, ImportError) as error:
                raise SettingError(f"agents.{name} on {env}: {error}") from error
            for seed in _seeds(content["seeds"]):
                yield Trial(
                    group=name + suffix,
                    agent=agent,
                    env=env,
                    seed=seed,
                    preset=content.get("preset", "default"),
                    num_envs=content.get("num_envs", 1),
                    threads=content.get("threads", 1),
                    settings=settings,
                    schedule=schedule,
                    supervision=supervision,
                    values=values,
                )


def module_of(env: str) -> str:
    """The module that an environment's id has imported (``module:Name-v0``); empty without one."""
    return env.rpartition(":")[0]


def _family(env: str, imports: bool) -> str:
    from bdqn.envs import UnknownEnvironment, family  # imports Gymnasium: help does not need it

    module = module_of(env)
    name = env.removeprefix(f"{module}:")
    if module and (not name or not all(part.isidentifier() for part in module.split("."))):
        raise SettingError(f"{env!r} is no Gymnasium id: module:Name-v0 names a module that can be imported.")
    if imports or not module:
        return family(env)
    try:
        return family(name)  # what is registered already needs no import
    except UnknownEnvironment:
        return "classic"


def _part(name: str, values: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    for key in values:
        if key not in known:
            raise SettingError(f"{name} has no key {key!r}; {nearest(key, known)}")
    return dict(values)


def _grid(axes: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every combination of settings that are lists, and what tells it from the others."""
    lists = {name: value for name, value in axes.items() if isinstance(value, list)}
    empty = [name for name, value in lists.items() if not value]
    if empty:
        raise SettingError(f"{', '.join(empty)} is a list without values: there is nothing to try.")
    for combination in product(*lists.values()):
        chosen = dict(zip(lists, combination, strict=True))
        yield suffix_of(chosen), {**axes, **chosen}


def suffix_of(chosen: Mapping[str, Any]) -> str:
    """What a group's name says of the settings that tell it from the others of its agent."""
    return "".join(f" {name}={_word(value)}" for name, value in chosen.items())


def _seeds(given: int | list[Any]) -> list[int]:
    seeds = list(range(min(given, MOST_SEEDS + 1))) if isinstance(given, int) else given
    if not seeds or any(type(seed) is not int or seed < 0 for seed in seeds):
        raise SettingError(f"seeds must be a number of seeds, or a list of integers from 0 on, not {given!r:.80}.")
    if len(seeds) > MOST_SEEDS:
        raise SettingError(f"seeds must be at most {MOST_SEEDS:,}.")
    return seeds


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)
