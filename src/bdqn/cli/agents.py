"""``bdqn agents``: which there are, how each differs from Double DQN, and what can be set about it."""

from __future__ import annotations

from textwrap import fill

from bdqn.agents import AGENTS, compared
from bdqn.cli.options import Parser
from bdqn.settings import settings_of


def run(argv: list[str]) -> int:
    """List the agents."""
    Parser(prog="bdqn agents", description="List the agents, their choices and their own settings.").parse(argv)
    table = [["", "head", "policy", "redraw", "bootstrap", "extras"]]
    table += [[name, *words.values()] for name, words in compared().items()]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    print('"=": as Double DQN (ddqn). Redraw: how long a draw of the acting Q-function lasts.\n')
    for name, recipe in AGENTS.items():
        print(f"{name}: {recipe.summary}")
        names = ", ".join(settings_of(recipe.settings)) or "nothing of its own to set"
        print(fill(names, 80, initial_indent="    ", subsequent_indent="    "))
    return 0
