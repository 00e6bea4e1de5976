"""Sweep files and the trials that they define.

    steps = 200_000
    seeds = 10                                  # 0 to 9; or a list
    environments = ["MinAtar/Breakout-v1"]

    [training]                                  # shared by all agents
    learning_rate = 2.5e-4

    [agents.bdqn]                               # a group of trials; its name is the agent, unless given

    [agents.careful]
    agent = "ddqn"
    exploration_final_eps = [0.1, 0.01]         # a list is a grid: one group per value

    [scales.quick]                              # a smaller version: bdqn sweep FILE --scale quick
    steps = 50_000
    seeds = 2

Everything is validated before anything starts. A trial's directory is named after a hash of its configuration without
its length and its device. The same trial thus has the same directory in every sweep, and a longer sweep continues it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
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
    "device": str,
    "training": dict,
    "schedule": dict,
    "supervision": dict,
    "scales": dict,
}
SCALED = {key: KEYS[key] for key in ("steps", "seeds", "environments")}  # what a scale may reduce
FULL = "full"  # the scale of the unreduced file
UNNAMED = ("steps", "device")  # parts of a trial that its directory is not named after
LONGEST_NAME = 80
MOST_SEEDS = 10_000  # per group; more is probably a typo
REQUIRED = ("steps", "seeds", "environments", "agents")


@dataclass(frozen=True, eq=False)
class Trial:
    """One run of a sweep."""

    group: str
    agent: str
    env: str
    seed: int
    steps: int  # decisions
    preset: str = "default"
    num_envs: int = 1
    threads: int = 1
    device: str | None = None  # None: the CPU, or where the trial has been so far
    settings: Mapping[str, Any] = field(default_factory=dict)  # overrides of the preset
    schedule: Mapping[str, Any] = field(default_factory=dict)
    supervision: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)  # all settings

    @property
    def label(self) -> str:
        """The name shown to users."""
        return f"{self.group} on {self.env}, seed {self.seed}"

    @property
    def may_end_early(self) -> bool:
        """Whether its schedule has something that ends it before its last decision."""
        return any(self.schedule.get(name) is not None for name in ("stop_at", "max_episodes"))

    @property
    def name(self) -> str:
        """A hash of everything that determines its files, except its length and its device."""
        hashed = {part: value for part, value in asdict(self).items() if part not in UNNAMED} | {"group": None}
        if not self.supervision:  # keeps the names from before supervision existed
            del hashed["supervision"]
        text = json.dumps(hashed, sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]

    def command(self, folder: Path) -> list[str]:
        """Return the ``bdqn`` arguments that start this trial, or resume it."""
        device = [] if self.device is None else ["--device", self.device]
        if (folder / "config.toml").exists():
            # Repeat the environment: the sweep file, not the run's own files, decides what is imported.
            return ["resume", str(folder), "--env", self.env, "--steps", str(self.steps), "--quiet", *device]
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
            "steps": self.steps,
            "out": folder,
        }
        words = (word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", _word(value)))
        return ["train", "--quiet", *words, *device]


@dataclass(frozen=True)
class Sweep:
    """All trials of a sweep file, or of some of its scales."""

    trials: tuple[Trial, ...]

    @property
    def steps(self) -> int:
        """The decisions of its longest trial."""
        return max((trial.steps for trial in self.trials), default=0)

    @property
    def devices(self) -> set[str]:
        """The devices that its trials name."""
        return {trial.device for trial in self.trials if trial.device is not None}

    def on(self, device: str) -> Sweep:
        """The same trials on another device."""
        return Sweep(tuple(replace(trial, device=device) for trial in self.trials))


def read_sweep(path: Path, scale: str = FULL, *, imports: bool = False) -> Sweep:
    """Read and validate a sweep file, and return one of its scales, or several of them (``quick,5M``) as one sweep.

    An error in any scale raises a SettingError that names the file and the key. Modules of environments
    (``module:Name-v0``) are imported only with ``imports``, because that runs their code.
    """
    scales = read_scales(path, imports=imports)
    names = scale.split(",")
    for name in names:
        if name not in scales:
            raise SettingError(f"{path}: unknown scale {name!r}; {nearest(name, scales)}")
    return _joined([scales[name] for name in names])


def _joined(sweeps: Sequence[Sweep]) -> Sweep:
    """All trials of these sweeps. One that several have is as long as its longest."""
    longest: dict[str, Trial] = {}
    for trial in (trial for sweep in sweeps for trial in sweep.trials):
        known = longest.setdefault(trial.name, trial)
        if trial.steps > known.steps:
            longest[trial.name] = trial
    return Sweep(tuple(longest.values()))


def read_scales(path: Path, *, imports: bool = False) -> dict[str, Sweep]:
    """Read all scales of a sweep file by name, the full one first."""
    content = read_content(path)
    with errors_naming(path):
        full = sweep_of(content, imports=imports)
        return {FULL: full, **_smaller(content, full.trials)}


def read_content(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return safe_files.read_user_toml(path)
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}.") from error


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Add the file's name to errors in the block."""
    try:
        yield
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from error


def sweep_of(content: Mapping[str, Any], *, imports: bool = False) -> Sweep:
    """Return the validated trials of a sweep file's content."""
    _check_types(content, KEYS)
    _check_values(content)
    trials = tuple(_trials(content, imports))
    _check_different(trials)
    return Sweep(trials)


def _smaller(content: Mapping[str, Any], trials: Sequence[Trial]) -> dict[str, Sweep]:
    """Return a file's scales: sweeps with fewer and shorter trials, but no others.

    The full sweep therefore continues whatever a scale has done.
    """
    found = {}
    for name, own in content.get("scales", {}).items():
        try:
            _check_scale(name, own, content)
        except SettingError as error:
            raise SettingError(f"scales.{name}: {error}") from error
        scaled = {**content, **own}
        seeds, envs = set(_seeds(scaled["seeds"])), set(scaled["environments"])
        mine = (trial for trial in trials if trial.seed in seeds and trial.env in envs)
        found[name] = Sweep(tuple(replace(trial, steps=scaled["steps"]) for trial in mine))
    return found


def _check_scale(name: str, own: Any, content: Mapping[str, Any]) -> None:
    if name == FULL:
        raise SettingError("this name is reserved for the whole file: choose another.")
    if "," in name:
        raise SettingError("a name must have no comma, which separates scales: choose another.")
    if not isinstance(own, dict) or not own:
        raise SettingError(f"a scale must be a table with some of {', '.join(SCALED)}.")
    _check_types(own, SCALED)
    _check_values({**content, **own})
    if own.get("steps", 1) > content["steps"]:
        raise SettingError(f"steps must be at most the file's {content['steps']:,}, not {own['steps']:,}.")
    others = set(_seeds(own.get("seeds", content["seeds"]))).difference(_seeds(content["seeds"]))
    if others:
        raise SettingError(f"seeds must be among the file's; these are not: {', '.join(map(str, sorted(others)[:5]))}.")
    for env in own.get("environments", []):
        if env not in content["environments"]:
            raise SettingError(f"{env} is not among the file's environments; {nearest(env, content['environments'])}")


def _check_different(trials: Sequence[Trial]) -> None:
    """Refuse two trials with the same configuration or the same name."""
    runs: dict[Any, Trial] = {}
    names: dict[Any, Trial] = {}
    for trial in trials:
        place = (trial.env, trial.seed)
        other = runs.setdefault((*place, trial.agent, *sorted(trial.values.items())), trial)
        if other is not trial:
            raise SettingError(
                f"two trials are identical: {other.group} and {trial.group} on {trial.env}, seed {trial.seed}."
            )
        if names.setdefault((*place, trial.group), trial) is not trial:
            raise SettingError(f"two groups are named {trial.group}: rename one of them.")


def _check_types(values: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if key not in known:
            raise SettingError(f"unknown key {key!r}; {nearest(key, known)}")
        if not isinstance(value, known[key]) or isinstance(value, bool):
            raise SettingError(f"{key} cannot be {value!r:.80}.")


def _check_values(content: Mapping[str, Any]) -> None:
    missing = [key for key in REQUIRED if not content.get(key)]
    if missing:
        raise SettingError(f"{', '.join(missing)} must be given and not empty.")
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
    known: dict[tuple[str, str], Mapping[str, Any]] = {}  # values: a file may have many environments of few families
    for env, (name, own) in product(content["environments"], content["agents"].items()):
        if not name or not name.isprintable() or len(name) > LONGEST_NAME:
            raise SettingError(f"agents.{name!r:.80}: a name must have 1 to {LONGEST_NAME} printable characters.")
        if not isinstance(own, dict):
            raise SettingError(f"agents.{name} must be a table, not {own!r:.80}.")
        agent = own.get("agent", name)
        if not isinstance(agent, str):
            raise SettingError(f"agents.{name}: agent must be the name of one agent, not {agent!r:.80}.")
        axes = {**content.get("training", {}), **{key: value for key, value in own.items() if key != "agent"}}
        for suffix, settings in _grid(axes):
            try:
                kind = _family(env, imports)
                if (name + suffix, kind) not in known:
                    known[name + suffix, kind] = configure(
                        agent, kind, content.get("preset", "default"), settings
                    ).values
            except (SettingError, ValueError, ImportError) as error:
                raise SettingError(f"agents.{name} on {env}: {error}") from error
            for seed in _seeds(content["seeds"]):
                yield Trial(
                    group=name + suffix,
                    agent=agent,
                    env=env,
                    seed=seed,
                    steps=content["steps"],
                    preset=content.get("preset", "default"),
                    num_envs=content.get("num_envs", 1),
                    threads=content.get("threads", 1),
                    device=content.get("device"),
                    settings=settings,
                    schedule=schedule,
                    supervision=supervision,
                    values=known[name + suffix, kind],
                )


def module_of(env: str) -> str:
    """Return the module that an environment id imports (``module:Name-v0``), or an empty string."""
    return env.rpartition(":")[0]


def _family(env: str, imports: bool) -> str:
    from bdqn.envs import UnknownEnvironment, family  # imported here, because --help needs no Gymnasium

    module = module_of(env)
    name = env.removeprefix(f"{module}:")
    if module and (not name or not all(part.isidentifier() for part in module.split("."))):
        raise SettingError(
            f"{env!r} is not a valid Gymnasium id: in module:Name-v0, module must be an importable name."
        )
    if imports or not module:
        return family(env)
    try:
        return family(name)  # an id that is already registered needs no import
    except UnknownEnvironment:
        return "classic"


def _part(name: str, values: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    for key in values:
        if key not in known:
            raise SettingError(f"{name} has no key {key!r}; {nearest(key, known)}")
    return dict(values)


def _grid(axes: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every combination of the settings that are lists, with a suffix for its name."""
    lists = {name: value for name, value in axes.items() if isinstance(value, list)}
    empty = [name for name, value in lists.items() if not value]
    if empty:
        raise SettingError(f"{', '.join(empty)} is an empty list: give at least one value.")
    for combination in product(*lists.values()):
        chosen = dict(zip(lists, combination, strict=True))
        yield suffix_of(chosen), {**axes, **chosen}


def suffix_of(chosen: Mapping[str, Any]) -> str:
    """Return the part of a group's name that lists its own settings."""
    return "".join(f" {name}={_word(value)}" for name, value in chosen.items())


def _seeds(given: int | list[Any]) -> list[int]:
    seeds = list(range(min(given, MOST_SEEDS + 1))) if isinstance(given, int) else given
    if not seeds or any(type(seed) is not int or seed < 0 for seed in seeds):
        raise SettingError(f"seeds must be a number of seeds or a list of integers of at least 0, not {given!r:.80}.")
    if len(seeds) > MOST_SEEDS:
        raise SettingError(f"there can be at most {MOST_SEEDS:,} seeds.")
    return seeds


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)
