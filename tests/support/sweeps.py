"""What tests of sweeps share: small sweep files, their processes, and the files that must not depend on kills."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil

STEPS = 1_500
TABLES = ("config.toml", "episodes.csv", "metrics.csv")


def sweep_file(folder: Path, *, steps: int, seeds: int | list[int], agents: str = "bdqn ddqn", more: str = "") -> Path:
    tables = "\n".join(f"[agents.{name}]" for name in agents.split())
    path = folder / "sweep.toml"
    path.write_text(f"""
steps = {steps}
seeds = {seeds}
environments = ["CartPole-v1"]
{more}
[training]
learning_starts = 100
features = 16
buffer_size = 2_000
[schedule]
save_freq = 200
log_freq = 100
keep = 1
{tables}
""")
    return path


def driver(file: Path, out: Path, *more: str, workers: int = 2) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bdqn", "sweep", str(file), "--out", str(out), "--workers", str(workers), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def complete(file: Path, out: Path, *more: str, workers: int = 2) -> tuple[int, str, str]:
    process = driver(file, out, *more, workers=workers)
    output, errors = process.communicate(timeout=600)
    return process.returncode, output, errors


def files(out: Path, steps: int) -> dict[str, bytes]:
    """What must not depend on who was killed when: each trial's tables and its last checkpoint."""
    found = {}
    for run in sorted((out / "trials").iterdir()):
        assert json.loads((run / "meta.json").read_text())["status"] == "finished"
        last = sorted((run / "checkpoints" / f"gen-{steps:012d}").iterdir())
        found |= {f"{run.name}/{p.name}": p.read_bytes() for p in [*(run / name for name in TABLES), *last]}
    return found


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        return [child for child in psutil.Process(process.pid).children() if child.is_running()]
    except psutil.NoSuchProcess:
        return []


def until(condition: object, process: subprocess.Popen[str], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def begun(folder: Path) -> tuple[subprocess.Popen[str], Path, Path]:
    """Two agents and two seeds, with the first checkpoint written, its file and its directory."""
    file, out = sweep_file(folder, steps=STEPS, seeds=2), folder / "out"
    process = driver(file, out)
    until(lambda: list(out.glob("trials/*/checkpoints/gen-*")), process)
    return process, file, out


def undisturbed_sweep(folder: Path) -> tuple[Path, dict[str, bytes]]:
    """Two agents and two seeds, and what they must always end as."""
    code, output, errors = complete(sweep_file(folder, steps=STEPS, seeds=2), folder / "out")
    assert (code, errors) == (0, "")
    assert "4 of 4 trials are finished." in output
    return folder / "out", files(folder / "out", STEPS)
