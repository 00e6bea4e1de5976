"""``bdqn agents``: which there are, and what can be set about each."""

from __future__ import annotations

from textwrap import fill

from bdqn.agents import AGENTS
from bdqn.cli.options import Parser
from bdqn.settings import settings_of


def run(argv: list[str]) -> int:
    """List the agents."""
    Parser(prog="bdqn agents", description="List the agents and their own settings.").parse(argv)
    for name, recipe in AGENTS.items():
        print(f"{name}: {recipe.summary}")
        names = ", ".join(settings_of(recipe.settings)) or "nothing of its own to set"
        print(fill(names, 80, initial_indent="    ", subsequent_indent="    "))
    return 0
