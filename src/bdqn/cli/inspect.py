"""``bdqn inspect``: shows the content of checkpoints and verifies it. Executes nothing; imports no torch."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bdqn.cli.common import print_rows, say, user_errors
from bdqn.cli.options import Parser
from bdqn.config.settings import SettingError
from bdqn.storage import checkpoint_files
from bdqn.storage.checkpoint_files import CheckpointError, Manifest
from bdqn.storage.safe_files import inside


def run(argv: list[str]) -> int:
    """Describe and verify checkpoints. Returns 1 if any is damaged."""
    parser = Parser(prog="bdqn inspect", description="Show the content of a checkpoint and verify every byte.")
    parser.add_argument("path", metavar="PATH", help="a run, its checkpoints, one of them, or a saved agent")
    parser.add_argument("--tensors", action="store_true", help="list every tensor with its dtype and shape")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse(argv)
    with user_errors():
        reports = [examine(folder) for folder in _folders(Path(args.path))]
    if args.json:
        print(json.dumps(reports, indent=1))
    else:
        for report in reports:
            _print(report, tensors=args.tensors)
    return 0 if all(not report["problems"] for report in reports) else 1


def examine(folder: Path) -> dict[str, Any]:
    """Describe one checkpoint, including its problems."""
    report: dict[str, Any] = {"path": str(folder), "problems": []}
    try:
        manifest = checkpoint_files.read(folder)
    except CheckpointError as error:
        report["problems"].append(str(error))
        return report
    report = {**manifest.about, **report, "step": manifest.step, "score": manifest.score, "files": {}, "tensors": {}}
    for entry in manifest.members:
        report["files"][entry.name] = entry.size
        try:
            data = checkpoint_files.read_member(folder, entry)
            if entry.name.endswith(".safetensors"):
                report["tensors"][entry.name] = tensor_header(data)
        except (CheckpointError, SettingError) as error:
            report["problems"].append(str(error))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            report["problems"].append(
                f"{folder / entry.name} is not a valid safetensors file: {type(error).__name__}: {error}"
            )
    tail = _tail_frames(report["tensors"].get("replay.safetensors", {}))
    report["replay"] = {**_replay(folder, manifest, report["problems"]), "tail": tail}
    return report


def tensor_header(data: bytes) -> dict[str, str]:
    """Read the dtype and shape of every tensor from the header of a safetensors file."""
    (length,) = struct.unpack_from("<Q", data) if len(data) >= 8 else (0,)
    if not 0 < length <= len(data) - 8:
        raise ValueError("its header is longer than the file.")
    header = json.loads(data[8 : 8 + length])
    return {name: f"{entry['dtype']} {entry['shape']}" for name, entry in header.items() if name != "__metadata__"}


def _tail_frames(tensors: Mapping[str, str]) -> int:
    """Count the frames of the replay buffer that are in the checkpoint itself, not in a segment."""
    shapes = (re.fullmatch(r"\S+ \[(\d{1,15})\]", kind) for name, kind in tensors.items() if name.endswith("/reach"))
    return sum(int(shape[1]) for shape in shapes if shape)


def _replay(folder: Path, manifest: Manifest, problems: list[str]) -> dict[str, int]:
    """Describe the replay buffer. The best checkpoint may outlive its segments; these are counted as gone."""
    siblings = checkpoint_files.checkpoints_in(folder.resolve().parent)
    segments = inside(folder.resolve().parent, "replay")
    gone = 0
    for segment in manifest.segments:
        if not os.path.lexists(segments / segment.name):
            gone += 1
            continue
        try:
            checkpoint_files.read_member(segments, segment)
        except (CheckpointError, SettingError) as error:
            problems.append(str(error))
    frames, size = (sum(getattr(s, name) for s in manifest.segments) for name in ("frames", "size"))
    if gone and folder.resolve() in siblings[-1:]:
        problems.append(f"{gone} of {len(manifest.segments)} replay segments are missing in {segments}.")
    return {"segments": len(manifest.segments), "frames": frames, "bytes": size, "gone": gone}


def _folders(path: Path) -> list[Path]:
    """Return the checkpoints at a path."""
    if checkpoint_files.is_checkpoint(path):
        return [path]
    for folder in (checkpoint_files.folder_of(path), path):
        found = checkpoint_files.checkpoints_in(folder)
        if found:
            return found
    raise SettingError(f"{path} {'holds no checkpoint' if path.exists() else 'does not exist'}.")


def _print(report: dict[str, Any], *, tensors: bool) -> None:
    say(report["path"])
    if "step" in report:
        replay = report["replay"]
        gone = f", {replay['gone']} no longer kept" if replay["gone"] else ""
        size = f"{replay['bytes'] / 1e6:,.1f} MB"
        tail = f", and {replay['tail']:,} frames in replay.safetensors" if replay["tail"] else ""
        rows = {
            "decisions": f"{report['step']:,}",
            "agent": f"{report['agent']} (preset {report['preset']}, seed {report['seed']})",
            "environment": f"{report['num_envs']} x {report['env']} {report['env_kwargs'] or ''}",
            "score": "-" if report["score"] is None else f"{report['score']:.2f}",
            "created with": ", ".join(f"{name} {v}" for name, v in report["versions"].items() if v)
            + f", {report['threads']} threads",
            "replay": f"{replay['segments']} segments, {replay['frames']:,} frames, {size}{gone}{tail}",
            **{f"file {name}": f"{size:,} bytes" for name, size in report["files"].items()},
        }
        if tensors:
            rows |= {f"{file}:{name}": kind for file, held in report["tensors"].items() for name, kind in held.items()}
        print_rows(rows)
    for problem in report["problems"]:
        say(f"  CANNOT BE READ: {problem}")
    if not report["problems"]:
        print("  valid: every file has the size and SHA-256 in the manifest")
