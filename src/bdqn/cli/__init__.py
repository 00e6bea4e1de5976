"""The command line. A verb is a module with ``run(argv)``, imported when asked for: help needs no torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from bdqn.cli.common import RunFailed, short_warnings
from bdqn.cli.layout import listed
from bdqn.cli.options import Parser
from bdqn.config.settings import SettingError, nearest
from bdqn.runs import exit_codes
from bdqn.runs.progress import is_unheard, silence, tell
from bdqn.storage.safe_files import printable

VERBS = {
    "train": "train an agent and record the run",
    "resume": "go on with a run that was interrupted, exactly where it was",
    "inspect": "show what a checkpoint holds, and verify it",
    "evaluate": "play with trained agents and report their returns",
    "sweep": "run all trials of a file: agents, environments and seeds",
    "tune": "choose settings: of a posterior on a trained agent's features, or any by a search (Optuna)",
    "compare": "compare the agents of a sweep, with intervals over seeds",
    "linear": "run LinPSRL, LinUCB and others on linear problems, and measure their regret exactly",
    "report": "write one page about runs, with the paper's tables beside them if asked for",
    "watch": "write one page that plays an episode beside the agent's beliefs",
    "check": "play a few random episodes in an environment, and say what is wrong with it",
    "presets": "list presets, or show every value of one with its source",
    "agents": "list the agents and their settings",
    "doctor": "say what is installed here, how fast it is, and how long a preset would take",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code: 0, or one of `bdqn.runs.exit_codes`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except SettingError as error:
        return _say(error, exit_codes.TO_CORRECT)
    except RunFailed as error:
        return _say(error, error.code)
    except KeyboardInterrupt:
        return _say("interrupted.", exit_codes.INTERRUPTED)
    except BrokenPipeError:
        unheard = [stream for stream in (sys.stdout, sys.stderr) if is_unheard(stream)]
        if not unheard:
            raise  # an environment's own pipe
        for stream in unheard:  # whose reader, say `head`, has had enough
            silence(stream)
        return 0


def _run(arguments: list[str]) -> int:
    """The verb's exit code, once all that it printed has been written."""
    if sys.stdout is None:  # and the next file to be opened, a run's table, would take its place
        raise SettingError("The standard output is closed: send it to a file, or to /dev/null.")
    try:
        try:
            verb, rest = _verb(arguments)
            with short_warnings():
                code: int = import_module(f"bdqn.cli.{verb}").run(rest)
        finally:
            # Here, where it can still be said that it failed; help comes by as SystemExit.
            if sys.stdout is not None and not sys.stdout.closed:  # by an environment
                sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if not _is_stuck(sys.stdout):  # it was another file
            raise
        silence(sys.stdout)
        raise RunFailed(f"The standard output cannot be written: {error.strerror}.") from error
    return code


def _is_stuck(stream: TextIO) -> bool:
    """Whether nothing more can be printed; trying is the only way to know."""
    try:
        print(file=stream, flush=True)
    except OSError:
        return True
    return False


def _say(message: object, code: int) -> int:
    """One line about what went wrong. Where it cannot be said, the exit code says it."""
    tell(printable(message))
    return code


def _verb(arguments: list[str]) -> tuple[str, list[str]]:
    """The verb and what follows it; without one, help or version is what is wanted."""
    if arguments and arguments[0] in VERBS:
        return arguments[0], arguments[1:]
    if arguments and not arguments[0].startswith("-"):
        raise SettingError(f"There is no command {arguments[0]!r}; {nearest(arguments[0], VERBS)}")
    commands = "\n".join(listed(VERBS))
    parser = Parser(
        prog="bdqn",
        usage="bdqn COMMAND ...",
        description="Bayesian DQN: deep reinforcement learning that explores by Thompson sampling.",
        epilog=f"commands:\n{commands}\n\nto start: bdqn train --env CartPole-v1\nmore: bdqn COMMAND --help",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    if parser.parse(arguments or ["--help"]).version:
        from importlib.metadata import version

        print(f"bdqn {version('bdqn')}")
        raise SystemExit(0)
    raise SettingError(f"Which command? {nearest('', VERBS)}")
