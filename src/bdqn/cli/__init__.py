"""The command line. A verb is a module with ``run(argv)``, imported when asked for: help needs no torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from bdqn.cli.common import RunFailed, on_one_line
from bdqn.cli.options import Parser
from bdqn.settings import SettingError, nearest

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
    "presets": "list presets, or show every value of one with its source",
    "agents": "list the agents and their settings",
    "doctor": "say what is installed here, how fast it is, and how long a preset would take",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code: 0, 1 for a run that failed, 2 for what to correct, 130 when interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        verb, rest = _verb(arguments)
        code: int = import_module(f"bdqn.cli.{verb}").run(rest)
        return code
    except SettingError as error:
        print(f"bdqn: {on_one_line(error)}", file=sys.stderr)
        return 2
    except RunFailed as error:
        print(f"bdqn: {on_one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bdqn: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, say `head`, has had enough
        sys.stderr.close()
        return 0


def _verb(arguments: list[str]) -> tuple[str, list[str]]:
    """The verb and what follows it; without one, help or version is what is wanted."""
    if arguments and arguments[0] in VERBS:
        return arguments[0], arguments[1:]
    if arguments and not arguments[0].startswith("-"):
        raise SettingError(f"There is no command {arguments[0]!r}; {nearest(arguments[0], VERBS)}")
    commands = "\n".join(f"  {verb:<10}{meaning}" for verb, meaning in VERBS.items())
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
