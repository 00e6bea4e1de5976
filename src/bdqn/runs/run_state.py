"""Whether a run can continue from what a checkpoint holds of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bdqn.runs.writer import HEADINGS
from bdqn.storage.checkpoint_files import CheckpointError
from bdqn.storage.csv_table import end_of_line
from bdqn.storage.safe_files import is_count


def check_state(run: Path, checkpoint: Path, state: Mapping[str, Any]) -> None:
    """Raise CheckpointError unless the run in this directory can continue from this state of a checkpoint."""
    if not _is_state(state):
        raise CheckpointError(f"{checkpoint / 'run.json'} is not the state of a run.")
    for name, heading in HEADINGS.items():
        table, rows = run / f"{name}.csv", state["rows"].get(name, 0)
        try:
            fits = not rows or end_of_line(table, heading + rows) is not None
        except FileNotFoundError:
            fits = False
        if not fits:
            raise CheckpointError(f"{checkpoint} counts {rows:,} rows of {table}, which has fewer: rows were removed.")


def _is_state(state: Mapping[str, Any]) -> bool:
    """Whether ``RunWriter.state`` can have returned this state, which was read from a file."""
    with suppress(KeyError, TypeError, AttributeError, ValueError, OverflowError):
        lengths = (length for _, length in state["recent"])
        counts = (*state["rows"].values(), state["logged"], state["evaluated"], *lengths)
        latest = 0.0 if state["evaluation"] is None else state["evaluation"]
        numbers = (latest, *(total for total, _ in state["recent"]))
        return all(map(is_count, counts)) and all(map(math.isfinite, numbers))
    return False
