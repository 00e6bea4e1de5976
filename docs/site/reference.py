"""Reference pages made from the code: settings, presets and the command line."""

from __future__ import annotations

import io
import os
import typing
from collections.abc import Iterable
from contextlib import redirect_stdout, suppress
from types import NoneType
from unittest import mock

from bdqn.agents import AGENTS
from bdqn.cli import COMMANDS, main
from bdqn.cli.options import text_of
from bdqn.cli.train import Options
from bdqn.config.preset_files import default_agent, family_of, preset_names, read_preset
from bdqn.config.resolve import configure
from bdqn.config.settings import Setting, Supervision, Training, settings_of
from bdqn.envs.settings import AtariSettings
from bdqn.runs.schedule import Schedule

WIDTH = "100"  # columns of the help texts


def settings() -> str:
    """Every setting, by the class that defines it."""
    groups = {
        "All agents": Training,
        **{f"`{name}`": recipe.settings for name, recipe in AGENTS.items() if settings_of(recipe.settings)},
        "Atari": AtariSettings,
        "Environments that fail": Supervision,
        "A run": Options,
        "Its schedule": Schedule,
    }
    text = """# Settings

Settings of agents are arguments of `bdqn.make` and flags of `bdqn train`, with hyphens for underscores. What concerns a
run as a whole has flags only. The built-in value is the one that holds where a preset has no other
([presets](presets.md)).
"""
    for title, cls in groups.items():
        rows = [(f"`{one.name}`", kind(one), text_of(one.default), one.help) for one in settings_of(cls).values()]
        text += f"\n## {title}\n\n{table(('setting', 'values', 'built in', 'meaning'), rows)}"
    return text


def kind(one: Setting) -> str:
    """The values that a setting takes, in words."""
    kinds = typing.get_args(one.type) or (one.type,)
    if one.choices:
        return ", ".join(f"`{choice}`" for choice in one.choices)
    if bool in kinds:
        return "`true`, `false`"
    number = "number" if float in kinds else "integer" if int in kinds else "text"
    low, high = one.minimum, one.maximum
    span = "" if low is None else f"\u00a0≥\u00a0{low}" if high is None else f", {low} to {high}"
    return f"{number}{span}{', or `none`' if NoneType in kinds else ''}"


def presets() -> str:
    """Every preset's values for the agent that it trains by default, with their sources."""
    text = """# Presets

A preset is a complete set of settings, each with its source. These are the values for the agent that the preset trains
if none is named. `bdqn presets show NAME --agent AGENT` prints those for another.
"""
    for name in preset_names():
        family = family_of(name)
        agent = default_agent(name, family)
        chosen = configure(agent, family, name)
        rows = [(f"`{key}`", text_of(value), chosen.sources[key]) for key, value in chosen.values.items()]
        text += (
            f"\n## `{name}`\n\n{read_preset(name, '')['summary']}. Agent `{agent}`, environments of family {family}, "
        )
        text += f"{chosen.total_steps:,} decisions.\n\n{table(('setting', 'value', 'source'), rows)}"
    return text


def command_line() -> str:
    """The help text of every command, as its parser prints it."""
    text = (
        "# Command line\n\nWhat every command prints with `--help`. [Examples](../docs/cli.md) are on their own page.\n"
    )
    commands = {"bdqn": (), **{f"bdqn {name}": (name,) for name in COMMANDS}}
    for title, words in commands.items():
        text += f"\n## `{title}`\n\n```text\n{help_of(words)}```\n"
    return text


def help_of(words: tuple[str, ...]) -> str:
    printed = io.StringIO()
    with mock.patch.dict(os.environ, COLUMNS=WIDTH), redirect_stdout(printed), suppress(SystemExit):
        main([*words, "--help"])
    return printed.getvalue()


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
