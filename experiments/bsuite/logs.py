"""bsuite's logs, and the scores that bsuite itself computes from them. Imports no torch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd

with warnings.catch_warnings(), matplotlib.rc_context():  # bsuite sets a style for all figures
    warnings.simplefilter("ignore")
    from bsuite.experiments import summary_analysis
    from bsuite.logging import logging_utils

KEY = ("agent", "bsuite_id")
COLUMNS = (
    *("steps", "episode", "total_return", "episode_len", "episode_return"),
    *("total_regret", "total_bad_episodes", "denoised_return"),
    *("raw_return", "best_episode", "total_upright", "total_perfect"),
)
EPISODES = {name: known.episode for name, known in summary_analysis.BSUITE_INFO.items()}
#: bsuite's scores count later episodes only, and are an error or no number where there are none.
FEWEST_EPISODES = {"deep_sea_stochastic": 100, **dict.fromkeys(("mnist", "mnist_noise", "mnist_scale"), 10_000)}
Scores = dict[str, float]


def read_logs(path: Path) -> pd.DataFrame:
    """Every row, joined with what bsuite says of its setting, as ``bsuite.logging.csv_load`` does."""
    rows = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=[*KEY, *COLUMNS])
    return logging_utils.join_metadata(rows)


def episodes_of(logs: pd.DataFrame) -> pd.DataFrame:
    """How far each run has come: episodes and decisions at the last row of its log."""
    return logs.groupby([*KEY, "bsuite_env"], as_index=False)[["episode", "steps"]].max()


def too_short(logs: pd.DataFrame) -> list[str]:
    """The experiments of which one agent has had too few episodes for a score."""
    longest = logs.groupby("bsuite_env")["episode"].max()
    return [name for name, fewest in FEWEST_EPISODES.items() if longest.get(name, fewest) < fewest]


def scores_of(logs: pd.DataFrame) -> tuple[Scores, Scores]:
    """bsuite's scores of one agent, by experiment and by tag; without what is `too_short`."""
    with _pandas_as_bsuite_knows_it():
        scores = summary_analysis.bsuite_score(logs[~logs["bsuite_env"].isin(too_short(logs))])
        tags = summary_analysis.ave_score_by_tag(scores, [])
    return _by(scores, "bsuite_env"), _by(tags, "tag")


def _by(frame: pd.DataFrame, column: str) -> Scores:
    return {name: float(score) for name, score in zip(frame[column], frame["score"], strict=True) if score == score}


@contextmanager
def _pandas_as_bsuite_knows_it() -> Iterator[None]:
    """With ``Series.append``, which bsuite's scores of DeepSea call and pandas 2 removed."""

    def append(series: Any, other: Any) -> Any:
        return pd.concat([series, other])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pd.Series.append = append  # type: ignore[attr-defined]
        try:
            yield
        finally:
            del pd.Series.append  # type: ignore[attr-defined]
