"""Commands that users can type as printed, in the directory where the program was started. Imports no torch."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path


def command(*words: str) -> str:
    """Format a ``bdqn`` command, started the way this one was."""
    return shlex.join([*_program(), *words])


@dataclass(frozen=True)
class NextCommands:
    """Commands that follow a run. They repeat an environment id that imports a module: no file may choose imports."""

    run: str  # its directory, as the user typed it
    env: str

    @property
    def resume(self) -> str:
        return self._command("resume")

    @property
    def evaluate(self) -> str:
        return self._command("evaluate")

    @property
    def watch(self) -> str:
        return self._command("watch")

    def _command(self, verb: str) -> str:
        return command(verb, self.run, *(("--env", self.env) if ":" in self.env else ()))


def _program() -> list[str]:
    """Return the words that started this program. Only ``python -m bdqn`` imports from the current directory."""
    started = sys.argv[0]
    match Path(started).parts:
        case [*_, "bdqn", "__main__.py"]:
            return [_shortest(sys.executable, "python", "python3"), "-m", "bdqn"]
        case [*_, "bdqn"]:
            return [_shortest(started, "bdqn")]
    return ["bdqn"]


def _shortest(path: str, *names: str) -> str:
    """Return a program's name if that suffices to find it, otherwise its path."""
    # Do not resolve links: a virtual environment's python links to one without its packages.
    return next((name for name in names if shutil.which(name) == os.path.abspath(path)), path)
