"""Measure the speed, compared with other libraries and with the bare parts of the training loop.

    make bench                                           everything, in an environment of its own
    .venv-bench/bin/python benchmarks/bench.py refit     one section

Measurements go to benchmarks/results as they came; benchmarks/page.py makes the tables and plots of
docs/performance.md from them.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Sequence

import torch

import accounting
import clock
import loop
import ours
import refit
import replay
import startup
import training
from bdqn.storage.provenance import versions
from measure import write_rows

SECTIONS: dict[str, Callable[[int], None]] = {
    "training": training.run,
    "loop": loop.run,
    "clock": clock.run,
    "refit": refit.run,
    "accounting": accounting.run,
    "replay": replay.run,
    "startup": startup.run,
}


def machine() -> list[dict[str, str]]:
    """The machine of the measurements."""
    facts = {
        "processor": platform.processor() or platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "bfloat16": "faster than float32" if ours.bfloat16_is_faster() else "slower than float32, or not possible",
        "threads": str(torch.get_num_threads()),
        **{name: str(version) for name, version in versions().items() if version},
    }
    return [{"fact": name, "value": value} for name, value in facts.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)} [all]")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contestant [%(default)s]")
    options = parser.parse_args(arguments)
    unknown = set(options.sections) - SECTIONS.keys()
    if unknown:
        parser.error(f"there is no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}.")
    write_rows("machine", machine())
    for name in options.sections or SECTIONS:
        print(f"\n{name}", flush=True)
        SECTIONS[name](options.rounds)


if __name__ == "__main__":
    main()
