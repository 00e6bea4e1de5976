"""What users may rely on: names with their parameters, commands with their flags, settings. See docs/promises.md.

python -m tests.support.public_api tests/data/public_api/0.1.json    # at the release of that version, once
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from bdqn.agents import AGENTS
from bdqn.cli import COMMANDS, main
from bdqn.config.settings import Training, settings_of

NAMES = [(module, name) for module in ("bdqn", "bdqn.linear") for name in import_module(module).__all__]
NAMES += [("bdqn.envs", "make_atari_vector")]


def public_api() -> dict[str, Any]:
    found = {f"{module}.{name}": getattr(import_module(module), name) for module, name in NAMES}
    python: dict[str, list[str]] = {}
    for name, thing in sorted(found.items()):
        python[name] = parameters_of(thing)
        if inspect.isclass(thing):
            python |= {f"{name}.{method}": parameters_of(getattr(thing, method)) for method in methods_of(thing)}
    return {
        "python": python,
        "commands": {name: sorted(flags_of(name)) for name in COMMANDS},
        "settings": {
            "every agent": sorted(settings_of(Training)),
            **{name: sorted(settings_of(recipe.settings)) for name, recipe in AGENTS.items()},
        },
    }


def parameters_of(thing: Any) -> list[str]:
    """As they are called: positional ones in their order, then "*", then those that must be named; "=": a default."""
    if not callable(thing) or (inspect.isclass(thing) and issubclass(thing, Exception)):
        return []
    parameters = inspect.signature(thing).parameters.values()
    before = [one for one in parameters if one.kind is not one.KEYWORD_ONLY]
    after = sorted((one for one in parameters if one.kind is one.KEYWORD_ONLY), key=lambda one: one.name)
    words = [f"{one.name}{'' if one.default is one.empty else '='}" for one in [*before, *after]]
    return [*words[: len(before)], *(["*"] if after else []), *words[len(before) :]]


def methods_of(cls: type) -> list[str]:
    own = [name for base in cls.__mro__ if base.__module__.startswith("bdqn.") for name in vars(base)]
    return sorted({name for name in own if not name.startswith("_")})


def flags_of(command: str) -> set[str]:
    printed = StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        main([command, "--help"])
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", printed.getvalue())) - {"--any-setting"}  # stands for settings


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(public_api(), indent=1) + "\n")
