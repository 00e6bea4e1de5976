"""The command line. Each command is a module with ``run(argv)``, imported on demand: --help needs no torch."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from bdqn.cli.common import NotSaved, RunFailed, short_warnings
from bdqn.cli.layout import listed
from bdqn.cli.options import Parser
from bdqn.config.settings import SettingError, nearest
from bdqn.runs import exit_codes
from bdqn.runs.progress import notify, reader_is_gone, silence
from bdqn.storage.safe_files import printable

COMMANDS = {
    "train": "train an agent and record the run",
    "resume": "resume an interrupted run, exactly where it stopped",
    "inspect": "show the content of a checkpoint and verify it",
    "evaluate": "play episodes with trained agents and report their returns",
    "sweep": "run all trials of a file: agents, environments and seeds",
    "tune": "tune the posterior on a trained agent's features, or any settings with Optuna",
    "compare": "compare the agents of a sweep, with confidence intervals over seeds",
    "linear": "run LinPSRL, LinUCB and others on linear problems and measure their exact regret",
    "report": "write an HTML report about runs, optionally beside the paper's tables",
    "export": "write a trained agent's Q as ONNX, for programs that need no bdqn",
    "push": "share a trained agent, with a model card, in a directory or on the Hugging Face hub",
    "pull": "copy a shared agent from there",
    "watch": "write an HTML page that plays an episode beside the agent's beliefs",
    "check": "play random episodes in an environment and report problems",
    "presets": "list the presets, or show all values of one with their sources",
    "agents": "list the agents and their settings",
    "doctor": "show what is installed, measure its speed and estimate the duration of a preset",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0, or one of `bdqn.runs.exit_codes`."""
    if argv is not None:
        return _exit_code(list(argv))
    code = _exit_code(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program ends: another Ctrl-C would only add tracebacks
    return code


def _exit_code(arguments: list[str]) -> int:
    try:
        return _run(arguments)
    except SettingError as error:
        return _say(error, exit_codes.USAGE_ERROR)
    except RunFailed as error:
        return _say(error, error.code)
    except KeyboardInterrupt:
        return _say("interrupted.", exit_codes.INTERRUPTED)
    except BrokenPipeError:
        closed = [stream for stream in (sys.stdout, sys.stderr) if reader_is_gone(stream)]
        if not closed:
            raise  # the error is from an environment's own pipe
        for stream in closed:  # by its reader, such as `head`
            silence(stream)
        return 0


def _run(arguments: list[str]) -> int:
    """Run a command and flush its output."""
    if sys.stdout is None:  # the next file opened, such as a table, would take its descriptor
        raise SettingError("Standard output is closed: redirect it to a file or to /dev/null.")
    try:
        try:
            command, rest = _command(arguments)
            with short_warnings():
                code: int = import_module(f"bdqn.cli.{command}").run(rest)
        finally:
            # Flush here, where a failure can still be reported. --help raises SystemExit.
            if sys.stdout is not None and not sys.stdout.closed:  # an environment may close it
                sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if not _is_stuck(sys.stdout):  # the error is about another file
            raise
        silence(sys.stdout)
        kind = NotSaved if exit_codes.code_of(error) == exit_codes.DISK_FULL else RunFailed
        raise kind(f"Cannot write to standard output: {error.strerror}.") from error
    except ValueError as error:
        if isinstance(error, SettingError) or sys.stdout is None or not sys.stdout.closed:
            raise
        raise RunFailed("The environment closed standard output, so nothing can be printed: correct it.") from error
    return code


def _is_stuck(stream: TextIO) -> bool:
    """Whether printing fails. The only way to know is to try."""
    try:
        print(file=stream, flush=True)
    except OSError:
        return True
    return False


def _say(message: object, code: int) -> int:
    """Print an error on one line, if possible, and return the exit code."""
    notify(printable(message))
    return code


def _command(arguments: list[str]) -> tuple[str, list[str]]:
    """Split the arguments into the command and its own. Without a command, show the help or the version."""
    if arguments and arguments[0] in COMMANDS:
        return arguments[0], arguments[1:]
    if arguments and not arguments[0].startswith("-"):
        raise SettingError(f"Unknown command {arguments[0]!r}; {nearest(arguments[0], COMMANDS)}")
    commands = "\n".join(listed(COMMANDS))
    parser = Parser(
        prog="bdqn",
        usage="bdqn COMMAND ...",
        description="Bayesian DQN: deep reinforcement learning with Thompson sampling.",
        epilog=f"commands:\n{commands}\n\nexample: bdqn train --env CartPole-v1\ndetails: bdqn COMMAND --help",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    if parser.parse(arguments or ["--help"]).version:
        from importlib.metadata import version

        print(f"bdqn {version('bdqn')}")
        raise SystemExit(0)
    raise SettingError(f"No command given; {nearest('', COMMANDS)}")
