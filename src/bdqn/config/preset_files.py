"""The preset files in ``presets/``: TOML that gives every value with its source. Imports nothing heavy."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from bdqn.config.settings import SettingError, nearest

FAMILIES = ("classic", "minatar", "atari")


def preset_names() -> list[str]:
    """Return the names of all preset files, without extension."""
    folder = resources.files("bdqn.config") / "presets"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def family_of(preset: str) -> str:
    """Return the family to show a preset for: ``default-atari`` names its own; others default to classic."""
    return next((family for family in FAMILIES if preset.endswith(f"-{family}")), "classic")


def read_preset(name: str, family: str) -> dict[str, Any]:
    """Read a preset. ``default`` depends on the family."""
    names = preset_names()
    for candidate in (f"{name}-{family}", name):
        if candidate in names:
            text = (resources.files("bdqn.config") / "presets" / f"{candidate}.toml").read_text()
            return {"file": candidate, **tomllib.loads(text)}
    short = {n.removesuffix(f"-{f}") for n in names for f in FAMILIES if n.endswith(f"-{f}")} | set(names)
    raise SettingError(f"Unknown preset {name!r}; {nearest(name, short)}")


def default_agent(preset: str, family: str = "classic") -> str:
    """Return the agent that a preset trains where none is given."""
    return str(read_preset(preset, family)["agent"])
