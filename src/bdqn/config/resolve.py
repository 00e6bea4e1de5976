"""Resolves an agent's name, a preset and overrides to a validated configuration. Imports no torch, no Gymnasium.

A preset is a TOML file in ``presets/`` that gives every value with its source. With ``like``, an agent's table
inherits the values of another agent, recursively, for the settings that both have. ``default`` exists once per family
of environments; the paper's presets apply to all families.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bdqn.agents import AGENTS
from bdqn.config.preset_files import FAMILIES, read_preset
from bdqn.config.settings import ReadWith, Setting, SettingError, Training, build, nearest, settings_of
from bdqn.envs.settings import AtariSettings


@dataclass(frozen=True)
class Configuration:
    """Everything that determines a run, except the environment itself."""

    agent: str
    family: str
    preset: str
    training: Training
    agent_settings: Any
    atari: AtariSettings
    total_steps: int
    sources: Mapping[str, str] = field(compare=False)

    @property
    def values(self) -> dict[str, Any]:
        """All settings by name, without those of other families."""
        parts = [self.training, self.agent_settings, *([self.atari] if self.family == "atari" else [])]
        return {name: value for part in parts for name, value in asdict(part).items()}


def known_settings(agent: str, family: str) -> dict[str, Setting]:
    """Return all settings of this agent in this family, by name."""
    if family not in FAMILIES:
        raise SettingError(f"Unknown family {family!r}; {nearest(family, FAMILIES)}")
    classes = [Training, recipe_named(agent).settings, *([AtariSettings] if family == "atari" else [])]
    return {name: setting for cls in classes for name, setting in settings_of(cls).items()}


def recipe_named(agent: str) -> Any:
    """Return an agent's recipe. An unknown name raises an error that suggests the nearest one."""
    if agent not in AGENTS:
        raise SettingError(f"Unknown agent {agent!r}; {nearest(agent, AGENTS)}")
    return AGENTS[agent]


def configure(
    agent: str,
    family: str,
    preset: str = "default",
    overrides: Mapping[str, Any] | None = None,
    *,
    saved: Mapping[str, Any] | None = None,
) -> Configuration:
    """Combine the preset's values for this agent, a saved run's and the user's, in this order, and validate them.

    A setting that the user gives must be read: otherwise it would silently have no effect. A saved run holds all
    settings, including those that are not read.
    """
    asked = dict(overrides or {})
    overrides = {**(saved or {}), **asked}
    known = known_settings(agent, family)
    for name in overrides:
        if name not in known:
            raise SettingError(f"{agent} has no setting {name!r}; {nearest(name, known)}")
    content = read_preset(preset, family)
    *relatives, own = _lineage(content, agent)
    layers = [content.get("training", {}), *(part for one in relatives for part in (one.get("training", {}), one))]
    layers += [own.get("training", {}), own]
    if family == "atari":
        layers.append(content.get("environment", {}))
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer in layers:
        for name, entry in layer.items():
            if name not in ("training", "like") and (name in known or not any(layer is one for one in relatives)):
                values[name], sources[name] = entry["value"], entry["source"]
    values |= overrides
    agent_settings = _part(recipe_named(agent).settings, values)
    for name, (switch, needed) in unread(agent_settings, asked).items():
        raise SettingError(
            f"{name} has an effect only with {switch} = {needed}, but {switch} is {getattr(agent_settings, switch)}: "
            f"set {switch} = {needed} too, or omit {name}."
        )
    sources |= dict.fromkeys(overrides, "set by you")
    return Configuration(
        agent=agent,
        family=family,
        preset=content["file"],
        training=_part(Training, values),
        agent_settings=agent_settings,
        atari=_part(AtariSettings, values),
        total_steps=content["total_steps"],
        sources={name: sources.get(name, "built in") for name in known},
    )


def _lineage(content: Mapping[str, Any], agent: str) -> list[dict[str, Any]]:
    """Return an agent's table, preceded by those it inherits from. Later tables override earlier ones."""
    own = content.get(agent, {})
    return [*(_lineage(content, own["like"]) if "like" in own else []), own]


def _part(cls: type, values: Mapping[str, Any]) -> Any:
    names = settings_of(cls)
    return build(cls, {name: value for name, value in values.items() if name in names})


def unread(settings: Any, names: Iterable[str]) -> ReadWith:
    """Return the settings that have no effect, each with its switch and the value that the switch needs."""
    read_with: ReadWith = getattr(settings, "READ_WITH", {})
    switches = {name: read_with[name] for name in names if name in read_with}
    return {name: pair for name, pair in switches.items() if getattr(settings, pair[0]) != pair[1]}
