"""Keep bsuite's logs of runs: python experiments/bsuite/collect.py SWEEP_DIRECTORY... [--bsuite NAME=DIRECTORY...]

``--bsuite`` names a directory of CSV files that bsuite itself wrote, such as those of baselines.py. Adds to
results/logs.csv, or to the file that ``--out`` names; a run that is there already is replaced. Unfinished runs are kept
as far as they have come.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from logs import COLUMNS, KEY

from bdqn.envs.bsuite import bsuite_id_of, checked_log
from bdqn.report.cells import write_table
from bdqn.report.collect import read_rows
from bdqn.storage import checkpoint_files
from bdqn.storage.checkpoints import ENVIRONMENTS
from bdqn.storage.saved_agents import read_state
from bdqn.sweep.folder import SweepFolder

OWN = Path(__file__).parent / "results" / "logs.csv"
Run = tuple[str, str]  # agent and bsuite's id
Rows = list[dict[str, object]]


def of_sweep(folder: Path) -> Iterator[tuple[Run, Rows]]:
    """The log of every run of a sweep that has a checkpoint: it is part of the environment's state."""
    sweep = SweepFolder(folder)
    for trial in sweep.rows():
        kept = checkpoint_files.checkpoints_in(checkpoint_files.folder_of(sweep.place(trial)))
        if not kept:
            print(f"{trial['group']} on {trial['env']} has no checkpoint yet, and is left out.")
            continue
        state = read_state(kept[-1], checkpoint_files.read(kept[-1]), ENVIRONMENTS)
        *_, experiment = state["own"][0]["state"]["layers"]
        yield (trial["group"], bsuite_id_of(trial["env"])), list(checked_log(experiment["state"]["log"]))


def of_bsuite(agent: str, folder: Path) -> Iterator[tuple[Run, Rows]]:
    """The logs that ``bsuite.load_and_record`` wrote."""
    for path in sorted(folder.glob("bsuite_id_-_*.csv")):
        experiment, _, setting = path.stem.removeprefix("bsuite_id_-_").rpartition("-")
        with path.open(newline="") as file:
            yield (agent, f"{experiment}/{setting}"), list(csv.DictReader(file))


def keep(found: Iterable[tuple[Run, Rows]], out: Path) -> None:
    logs: dict[Run, Rows] = {}
    for row in read_rows(out):
        logs.setdefault((row["agent"], row["bsuite_id"]), []).append(dict(row))
    logs.update(found)
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = ((*run, *(row.get(name, "") for name in COLUMNS)) for run in sorted(logs) for row in logs[run])
    write_table(out, [(*KEY, *COLUMNS), *lines])
    print(f"{out}: {len(logs)} runs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="what bdqn sweep wrote")
    parser.add_argument("--bsuite", nargs="+", default=[], metavar="NAME=DIRECTORY", help="what bsuite wrote")
    parser.add_argument("--out", type=Path, default=OWN, help="[%(default)s]")
    args = parser.parse_args()
    theirs = (given.partition("=") for given in args.bsuite)
    found = [run for folder in args.folders for run in of_sweep(folder)]
    found += [run for name, _, folder in theirs for run in of_bsuite(name, Path(folder))]
    keep(found, args.out)


if __name__ == "__main__":
    main()
