"""What tests of pages share: run directories written by hand, and a recording made of plain arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bdqn.runs.recording import Recording
from bdqn.storage.toml import toml_text

EVIL = "<script>throw 'taken for HTML'</script>"  # a name that must stay a name


def write_run(
    folder: Path,
    agent: str,
    env: str,
    seed: int,
    returns: Sequence[float],
    *,
    settings: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Sequence[float]] | None = None,
    planned: int | None = None,
    **more: Any,
) -> Path:
    """A run whose episodes last ten decisions; ``more`` of its configuration, apart from its settings."""
    decisions = 10 * len(returns)
    (folder / "checkpoints" / f"gen-{decisions:012d}").mkdir(parents=True)
    config = {"agent": agent, "env": env, "seed": seed, "steps": planned or decisions, "preset": "default", **more}
    (folder / "config.toml").write_text(toml_text({**config, "settings": {"gamma": 0.99, **(settings or {})}}))
    rows = [f"{10 * (i + 1)},0,{value},10,0" for i, value in enumerate(returns)]
    (folder / "episodes.csv").write_text("\n".join(["step,env,return,length,truncated", *rows]) + "\n")
    columns = {"step": [float(10 * (i + 1)) for i in range(len(returns))], **(metrics or {})}
    cells = zip(*columns.values(), strict=True)
    (folder / "metrics.csv").write_text("\n".join([",".join(columns), *(",".join(map(str, c)) for c in cells)]) + "\n")
    meta = {"status": "finished", "protocol": "no time limit", "versions": {"numpy": "2.0"}, "git_commit": "abc"}
    (folder / "meta.json").write_text(json.dumps(meta))
    (folder / "command.txt").write_text(f"bdqn train --env {env} --seed {seed}\n")
    return folder


def write_evaluation(folder: Path, epsilon: float, mean: float, step: int) -> None:
    (folder / "evaluate.json").write_text(json.dumps({"epsilon": epsilon, "mean_reward": mean, "step": step}))


def read_markdown(path: Path) -> list[dict[str, str]]:
    """A table as a reader sees it, a row each."""
    heading, _, *rows = (line[2:-2].split(" | ") for line in path.read_text().splitlines() if line.startswith("|"))
    return [dict(zip(heading, row, strict=True)) for row in rows]


def recording(decisions: int = 6, *, posterior: bool = True, pictures: bool = True) -> Recording:
    """Two actions whose beliefs drift apart; every decision has a picture of its own."""
    t = np.arange(decisions, dtype=float)
    mean, spread = np.stack([t, -t], 1), np.stack([1 + t, 2 + t], 1)
    shades = [np.full((4, 4, 3), 30 * i, np.uint8) for i in range(decisions)] if pictures else []
    best = np.stack([0.5 + t / 20, 0.5 - t / 20], 1)
    return Recording(
        title=f"agent {EVIL}",
        facts={"trained for": EVIL},
        actions=("left", EVIL),
        pictures=shades,
        observations=np.empty((decisions, 0)) if pictures else np.stack([t, t[::-1]], 1) / decisions,
        mean=mean,
        draw=mean + 0.5,
        std=spread if posterior else None,
        predictive_std=spread if posterior else None,
        best=best if posterior else None,
        action=np.array([0, 1] * decisions)[:decisions],
        redrawn=t == 0,
        reward=t % 2,
        ended=t == decisions - 1,
        outcome=t,
    )
