"""``bdqn export``: writes a trained agent's Q for programs that need no bdqn."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bdqn.cli.common import RunFailed, load_to_play, say, user_errors
from bdqn.cli.options import Parser
from bdqn.config.settings import SettingError


def run(argv: list[str]) -> int:
    """Load an agent, export it and compare it with the agent."""
    parser = Parser(
        prog="bdqn export",
        description="Write a trained agent's Q: observations in, mean and standard deviation of Q out. "
        "Agents without a posterior give q alone.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's directory, one of its checkpoints, or a saved agent")
    parser.add_argument("--onnx", metavar="FILE", help="write an ONNX model, for ONNX Runtime and others")
    parser.add_argument("--torch", metavar="FILE", help="write a program for torch.export.load (.pt2)")
    parser.add_argument("--env", metavar="NAME", help="the environment again, if its id imports a module")
    parser.add_argument("--best", action="store_true", help="use the run's best checkpoint instead of the newest")
    parser.add_argument("--replace", action="store_true", help="replace files that are there")
    args = parser.parse(argv)
    files = {name: Path(path).absolute() for name, path in (("onnx", args.onnx), ("torch", args.torch)) if path}
    if not files:
        raise SettingError("Say what to write: --onnx FILE, --torch FILE, or both.")
    _check_places(files, replace=args.replace)

    from bdqn.storage.export import ExportError, export, exportable

    with user_errors():
        learner = load_to_play(Path(args.run), args.env, best=args.best)
        try:
            difference = export(learner, onnx=files.get("onnx"), torch_program=files.get("torch"))
        except ExportError as error:
            raise RunFailed(str(error)) from error
        outputs = ", ".join(exportable(learner).outputs)
    for path in (args.onnx, args.torch):
        if path:
            say(f"{path}: observation -> {outputs}; differs from the agent by {difference:.1g} of its largest value")
    return 0


def _check_places(files: Mapping[str, Path], *, replace: bool) -> None:
    """Refuse files that would be lost, before the agent is loaded."""
    if len(set(files.values())) < len(files):
        raise SettingError("--onnx and --torch name the same file: name two.")
    for option, path in files.items():
        if path.is_dir():
            raise SettingError(f"--{option} {path} is a directory: name a file in it.")
        if os.path.lexists(path) and not replace:
            raise SettingError(f"--{option} {path} exists: choose another file, or pass --replace.")
