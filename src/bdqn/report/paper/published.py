"""The paper's tables as data, and the arithmetic behind its derived numbers.

Azizzadenesheli and Anandkumar, "Efficient Exploration through Bayesian Deep Q-Networks", arXiv:1802.04412. Cells are
stored as printed: rounded, with k and M for thousands and millions, and "-" for never. Tables 2 and 4 contain scores.
Table 3 contains numbers derived from them; ``consistency.disagreements`` lists those that do not follow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

import numpy as np

from bdqn.report.load import Array

WINDOW = 100  # episodes in a score: "average of 100 consecutive episodes"
PONG_SHIFT = 21.0  # "for Pong, since the scores start from -21, we shift it up by 21"
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "%": 1e-2}
NUMBER = re.compile(r"(-?\d+(?:\.(\d+))?)([kM%]?)")


@dataclass(frozen=True)
class Cell:
    """One cell of a table, as printed."""

    text: str
    bold: bool = False

    @property
    def value(self) -> float:
        """The number in the cell; NaN for "-". A percentage becomes a ratio: 558% is 5.58."""
        match = NUMBER.fullmatch(self.text)
        return float(match[1]) * UNITS[match[3]] if match else np.nan

    @property
    def rounding(self) -> float:
        """The largest rounding error: half a unit of the last digit."""
        match = NUMBER.fullmatch(self.text)
        return 0.5 * 10.0 ** -len(match[2] or "") * UNITS[match[3]] if match else np.nan


@dataclass(frozen=True)
class Table:
    """A table of the paper: rows by their printed name, cells by column."""

    number: int
    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Cell]]

    def values(self, column: str) -> dict[str, float]:
        return {row: cells[column].value for row, cells in self.rows.items()}


def _table(number: int, title: str, text: str) -> Table:
    """Parse a table: columns are separated by spaces, and a star marks bold print."""
    heading, *lines = (line.split() for line in text.strip().splitlines())
    rows = {}
    for name, *cells in lines:
        rows[name] = {
            column: Cell(cell.lstrip("*"), cell.startswith("*"))
            for column, cell in zip(heading[1:], cells, strict=True)
        }
    return Table(number, title, tuple(heading[1:]), rows)


# Table 1: what each exploration strategy uses.
STRATEGIES: Mapping[str, Mapping[str, bool]] = {
    "ε-greedy": {"Greedy-Action": True, "Estimated Q-values": False, "Estimated uncertainties": False},
    "Boltzmann exploration": {"Greedy-Action": True, "Estimated Q-values": True, "Estimated uncertainties": False},
    "Thompson Sampling": {"Greedy-Action": True, "Estimated Q-values": True, "Estimated uncertainties": True},
}

SCORES = _table(
    2,
    "Scores (average of 100 consecutive episodes) and sample complexities",
    """
    Game         BDQN   DDQN  DDQN+  Bootstrap NoisyNet CTS    Pixel Reactor Human SC    SC+    Step
    Amidar       *5.52k 0.99k 0.7k   1.27k     1.5k     1.03k  0.62k 1.18k   1.7k  22.9M 4.4M   100M
    Alien        3k     2.9k  2.9k   2.44k     2.9k     1.9k   1.7k  *3.5k   6.9k  -     36.27M 100M
    Assault      *8.84k 2.23k 5.02k  8.05k     3.1k     2.88k  1.25k 3.5k    1.5k  1.6M  24.3M  100M
    Asteroids    *14.1k 0.56k 0.93k  1.03k     2.1k     3.95k  0.9k  1.75k   13.1k 58.2M 9.7M   100M
    Asterix      *58.4k 11k   15.15k 19.7k     11.0     9.55k  1.4k  6.2k    8.5k  3.6M  5.7M   100M
    BeamRider    8.7k   4.2k  7.6k   *23.4k    14.7k    7.0k   3k    3.8k    5.8k  4.0M  8.1M   70M
    BattleZone   *65.2k 23.2k 24.7k  36.7k     11.9k    7.97k  10k   45k     38k   25.1M 14.9M  50M
    Atlantis     3.24M  39.7k 64.76k 99.4k     7.9k     1.8M   40k   *9.5M   29k   3.3M  5.1M   40M
    DemonAttack  11.1k  3.8k  9.7k   82.6k     26.7k    *39.3k 1.3k  7k      3.4k  2.0M  19.9M  40M
    Centipede    *7.3k  6.4k  4.1k   4.55k     3.35k    5.4k   1.8k  3.5k    12k   -     4.2M   40M
    BankHeist    0.72k  0.34k 0.72k  *1.21k    0.64k    1.3k   0.42k 1.1k    0.72k 2.1M  10.1M  40M
    CrazyClimber 124k   84k   102k   *138k     121k     112.9k 75k   119k    35.4k 0.12M 2.1M   40M
    ChopperCmd   *72.5k 0.5k  4.6k   4.1k      5.3k     5.1k   2.5k  4.8k    9.9k  4.4M  2.2M   40M
    Enduro       1.12k  0.38k 0.32k  1.59k     0.91k    0.69k  0.19k *2.49k  0.31k 0.82M 0.8M   30M
    Pong         *21    18.82 *21    20.9      *21      20.8   17    20      9.3   1.2M  2.4M   5M
    """,
)

RATIOS = _table(
    3,
    "Score ratios, ratio of the areas under the performance plots (AuPPr), and sample complexities",
    """
    Game           BDQN/DDQN BDQN/DDQN+ BDQN/Human AuPPr SC    SC+    Steps
    Amidar         558%      788%       325%       280%  22.9M 4.4M   100M
    Alien          103%      103%       43%        110%  -     36.27M 100M
    Assault        396%      176%       589%       290%  1.6M  24.3M  100M
    Asteroids      2517%     1516%      108%       680%  58.2M 9.7M   100M
    Asterix        531%      385%       687%       590%  3.6M  5.7M   100M
    BeamRider      207%      114%       150%       210%  4.0M  8.1M   70M
    BattleZone     281%      253%       172%       180%  25.1M 14.9M  50M
    Atlantis       80604%    49413%     11172%     380%  3.3M  5.1M   40M
    DemonAttack    292%      114%       326%       310%  2.0M  19.9M  40M
    Centipede      114%      178%       61%        105%  -     4.2M   40M
    BankHeist      211%      100%       100%       250%  2.1M  10.1M  40M
    CrazyClimber   148%      122%       350%       150%  0.12M 2.1M   40M
    ChopperCommand 14500%    1576%      732%       270%  4.4M  2.2M   40M
    Enduro         295%      350%       361%       300%  0.82M 0.8M   30M
    Pong           112%      100%       226%       130%  1.2M  2.4M   5M
    """,
)

DROPOUT = _table(
    4,
    "Dropout as a randomised exploration strategy",
    """
    Game         BDQN  DDQN  DDQN+  Dropout-DDQN Random Step
    CrazyClimber 124k  84k   102k   19k          11k    40M
    Atlantis     3.24M 39.7k 64.76k 7.7k         12.85k 40M
    Enduro       1.12k 0.38k 0.32k  0.27k        0      30M
    Pong         21    18.82 21     -18          -20.7  5M
    """,
)

# Table 5: what is printed, and the setting's name and value in preset `paper`.
HYPERPARAMETERS: Mapping[str, tuple[str, str, float]] = {
    "T^T": ("10k", "target_update_interval", 10_000),
    "T^S": ("T^T/10", "sample_interval", 1_000),
    "T^BT": ("10T^T", "posterior_update_interval", 100_000),
    "B": ("10T^T", "posterior_batch_size", 100_000),
    "lr": ("0.0025", "learning_rate", 0.0025),
    "σ": ("0.001", "prior_var", 0.001),
    "σ_ε": ("1", "noise_var", 1.0),
}

GAMES = tuple(SCORES.rows)  # as Table 2 names them
_IDS = {"ChopperCmd": "ChopperCommand"}  # as in Table 3 and in the emulator

# Human scores that later papers use for normalisation (Wang et al., 2016, arXiv:1511.06581).
LATER_HUMAN: Mapping[str, float] = {
    "Amidar": 1719.5,
    "Alien": 7127.7,
    "Assault": 742.0,
    "Asteroids": 47388.7,
    "Asterix": 8503.3,
    "BeamRider": 16926.5,
    "BattleZone": 37187.5,
    "Atlantis": 29028.1,
    "DemonAttack": 1971.0,
    "Centipede": 12017.0,
    "BankHeist": 753.1,
    "CrazyClimber": 35829.4,
    "ChopperCmd": 7387.8,
    "Enduro": 860.5,
    "Pong": 14.6,
}
HUMAN: Mapping[str, Mapping[str, float]] = {
    "Mnih et al. (2015), the paper's": SCORES.values("Human"),
    "Wang et al. (2016)": LATER_HUMAN,
}


def full_name(game: str) -> str:
    """The game's name in Table 3, and in the emulator's ids."""
    return _IDS.get(game, game)


def env_id(game: str) -> str:
    return f"ALE/{full_name(game)}-v5"


# --- arithmetic, for the paper's scores and ours ------------------------------------------------------------------


def shift_of(game: str) -> float:
    """The constant added to a game's scores to make areas positive before they are compared."""
    return PONG_SHIFT if game == "Pong" else 0.0


def score_ratio(ours: float, theirs: float) -> float:
    """Ratio of two scores, or of two areas under learning curves (AuPPr); NaN unless both are positive."""
    return ours / theirs if ours > 0 and theirs > 0 else np.nan


def decisions_to_beat(step: Array, returns: Array, score: float, window: int = WINDOW) -> float:
    """SC: decisions until the mean return of ``window`` episodes exceeds a score; NaN if it never does."""
    if len(returns) < window:
        return np.nan
    total = np.concatenate([[0.0], np.cumsum(returns)])
    means = (total[window:] - total[:-window]) / window
    above = np.flatnonzero(means > score)
    return float(step[window - 1 + above[0]]) if above.size else np.nan


RATIO_COLUMNS = {"BDQN/DDQN": "DDQN", "BDQN/DDQN+": "DDQN+", "BDQN/Human": "Human"}  # the denominator's column


def ratio(game: str, column: str) -> float:
    """A ratio of Table 3, recomputed from the scores of Table 2."""
    return score(game, "BDQN").value / score(game, RATIO_COLUMNS[column]).value


def ratio_range(game: str, column: str) -> tuple[float, float]:
    """The smallest and largest ratio of scores that round to the printed ones."""
    ours, theirs = score(game, "BDQN"), score(game, RATIO_COLUMNS[column])
    low = (ours.value - ours.rounding) / (theirs.value + theirs.rounding)
    high = (ours.value + ours.rounding) / (theirs.value - theirs.rounding)
    return low, high


def ratio_cells(game: str) -> Mapping[str, Cell]:
    """A game's row of Table 3."""
    return RATIOS.rows[full_name(game)]


def follows(game: str, column: str) -> bool:
    """Whether a printed ratio follows from the printed scores, rounded or truncated to whole percents."""
    return abs(ratio_cells(game)[column].value - ratio(game, column)) < 0.01 - 1e-9


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, maximum, mean and standard deviation: the statistics that the paper's introduction quotes."""
    return {"median": median(values), "maximum": max(values), "mean": fmean(values), "std": stdev(values)}


def score(game: str, column: str) -> Cell:
    return SCORES.rows[game][column]


def percent(value: float) -> str:
    """Format a ratio as the paper does."""
    return f"{100 * value:.0f}%"
