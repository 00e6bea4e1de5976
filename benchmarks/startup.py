"""Startup times: of the help, of the import, and until the first training step."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from measure import Spread, interleaved, write_rows


def command(*words: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True)


def run(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        numbers = iter(range(10**6))

        def first_step() -> object:
            where = ("--out", str(Path(folder) / str(next(numbers))))
            return command("-m", "bdqn", "train", "--env", "CartPole-v1", "--steps", "1", "--quiet", *where)()

        times = interleaved(
            {
                "bdqn --help": command("-m", "bdqn", "--help"),
                "bdqn train --help": command("-m", "bdqn", "train", "--help"),
                "import bdqn": command("-c", "import bdqn"),
                "import bdqn; bdqn.make": command("-c", "import bdqn; bdqn.make"),
                "import torch": command("-c", "import torch"),
                "bdqn train, one decision": first_step,
            },
            rounds,
        )
    rows = [
        {"what": name, "round": i, "seconds": f"{v:.3f}"}
        for name, values in times.items()
        for i, v in enumerate(values)
    ]
    for name, values in times.items():
        print(f"  {name}: {Spread.of(values)} s")
    write_rows("startup", rows)
