"""Commands that can be typed as they are printed, in the directory where this program was started. No torch."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path


def command(*words: str) -> str:
    """A command of ``bdqn``, to be typed as this one was."""
    return shlex.join([*_program(), *words])


@dataclass(frozen=True)
class Directions:
    """How to go on from a run; its environment is given again where its id imports a module, which no file decides."""

    run: str  # its directory, as the user calls it
    env: str

    @property
    def resume(self) -> str:
        return self._command("resume")

    @property
    def evaluate(self) -> str:
        return self._command("evaluate")

    def _command(self, verb: str) -> str:
        return command(verb, self.run, *(("--env", self.env) if ":" in self.env else ()))


def _program() -> list[str]:
    """The words that started this program: ``python -m bdqn`` finds modules of the current directory, ``bdqn`` not."""
    started = sys.argv[0]
    match Path(started).parts:
        case [*_, "bdqn", "__main__.py"]:
            return [_shortest(sys.executable, "python", "python3"), "-m", "bdqn"]
        case [*_, "bdqn"]:
            return [_shortest(started, "bdqn")]
    return ["bdqn"]


def _shortest(path: str, *names: str) -> str:
    """A program's name where that is enough to find it, else its path."""
    # Links are not followed: a virtual environment's python is one to a python without its packages.
    return next((name for name in names if shutil.which(name) == os.path.abspath(path)), path)
