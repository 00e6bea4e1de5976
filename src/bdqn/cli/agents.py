"""``bdqn agents``: the agents, how each differs from Double DQN, and their settings."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from bdqn.agents import AGENTS, Recipe, compared
from bdqn.cli.layout import listed, print_folded, table
from bdqn.cli.options import Parser, text_of
from bdqn.config.settings import settings_of


def run(argv: list[str]) -> int:
    """List the agents, or describe one."""
    parser = Parser(
        prog="bdqn agents",
        description="List the agents, their design choices and their own settings. With a name, describe that agent.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the agent to describe, such as bdqn")
    name = parser.parse(argv).name
    if name is None:
        _list()
    else:
        _describe(name)
    return 0


def _list() -> None:
    _print_choices(AGENTS)
    print()
    for name, recipe in AGENTS.items():
        names = ", ".join(settings_of(recipe.settings)) or "no settings of its own"
        print_folded([f"{name}: {recipe.summary}", f"    {names}"])
    print("\ndetails of an agent: bdqn agents NAME")


def _describe(name: str) -> None:
    """Print an agent's description, its choices beside Double DQN's, its settings in all presets, and links."""
    from bdqn.config.preset_files import family_of, preset_names
    from bdqn.config.resolve import configure, recipe_named

    recipe = recipe_named(name)
    print_folded([*_about(name, recipe), ""])
    _print_choices(dict.fromkeys(("ddqn", name)))
    print("\nown settings:")
    settings = settings_of(recipe.settings)
    values = {preset: configure(name, family_of(preset), preset).values for preset in preset_names()}
    meanings = {key: f"{one.help} {_values(key, values)}" for key, one in settings.items()}
    print_folded(listed(meanings) or ["  none"])
    further = {
        "example": f"bdqn train --env CartPole-v1 --agent {name}",
        "all settings": f"bdqn train --env CartPole-v1 --agent {name} --help",
        "page": f"docs/algorithms/{name}.md",
    }
    print_folded(["", *listed(further, indent=0)])


def _print_choices(names: Iterable[str]) -> None:
    words = compared()
    rows = [("", *words["ddqn"]), *((name, *words[name].values()) for name in names)]
    print("\n".join(table(rows)))
    print_folded(['"=": same as Double DQN (ddqn). Redraw: how long a sampled Q-function is kept for acting.'])


def _about(name: str, recipe: Recipe) -> list[str]:
    """Return the recipe's docstring, one line per paragraph and per difference."""
    text = f"{name}: {inspect.getdoc(sys.modules[recipe.choices.__module__])}"
    return re.sub(r"(?<!\n)\n(?!\n|- ) *", " ", text).splitlines()


def _values(key: str, presets: Mapping[str, Mapping[str, Any]]) -> str:
    """Format a setting's value, with the presets if they differ."""
    who: dict[str, list[str]] = {}
    for preset, values in presets.items():
        who.setdefault(text_of(values[key]), []).append(preset)
    parts = who if len(who) == 1 else [f"{value} in {', '.join(names)}" for value, names in who.items()]
    defaults = ", ".join(preset for preset in presets if preset.startswith("default-"))
    return f"[{'; '.join(parts)}]".replace(defaults, "default")
