"""Numbers that the paper prints, recomputed from its own tables; ``disagreements`` lists those that do not follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from bdqn.report.paper import published
from bdqn.report.paper.published import (
    DROPOUT,
    GAMES,
    RATIO_COLUMNS,
    RATIOS,
    follows,
    full_name,
    percent,
    ratio,
    ratio_cells,
    ratio_range,
    score,
    summary,
)


@dataclass(frozen=True)
class Check:
    """A printed value beside the recomputed one."""

    where: str
    printed: str
    recomputed: str
    agrees: bool
    remark: str = ""


def disagreements() -> list[Check]:
    """Every printed value that does not follow from the rest of the paper, in the paper's order."""
    checks = [*claims(), *_derived_cells(), *_repeated_cells(), *_sample_complexities(), *_bold_cells(), *_sentences()]
    return [check for check in checks if not check.agrees]


def claims() -> list[Check]:
    """The headline numbers of the introduction, recomputed from Tables 2 and 3."""
    ours = {game: ratio(game, "BDQN/DDQN") for game in GAMES}
    printed = summary(list(RATIOS.values("BDQN/DDQN").values()))
    again, areas = summary(list(ours.values())), summary(list(RATIOS.values("AuPPr").values()))
    best = max(ours, key=ours.__getitem__)
    return [
        Check(
            "Introduction: improvement over DDQN, median",
            "300%",
            percent(again["median"]),
            abs(again["median"] - 3.0) < 0.1,
            f"as a ratio, from Table 2 (from Table 3's own cells {percent(printed['median'])}); "
            f"as an improvement it is {percent(again['median'] - 1)}",
        ),
        Check(
            "Introduction: improvement over DDQN, maximum",
            "80K%",
            percent(again["maximum"]),
            abs(again["maximum"] - 800) < 10,
            f"the largest is {full_name(best)}; 80K% is Table 3's Atlantis, which recomputes to "
            f"{percent(ours['Atlantis'])}: {score('Atlantis', 'BDQN').text} / {score('Atlantis', 'DDQN').text}",
        ),
        Check(
            "Introduction: area under the performance plot, mean ± standard deviation",
            "300% ± 40%",
            f"{percent(areas['mean'])} ± {percent(areas['std'])}",
            abs(areas["mean"] - 3.0) < 0.1 and abs(areas["std"] - 0.4) < 0.05,
            "as a ratio, from Table 3's column AuPPr over the 15 games; as an improvement it is "
            f"{percent(areas['mean'] - 1)}. The paper does not print the areas. "
            f"The standard error of that mean is {percent(areas['std'] / len(GAMES) ** 0.5)}",
        ),
        _half_of_the_games(published.SCORES),
    ]


def _half_of_the_games(scores: published.Table) -> Check:
    """The claim about almost half of the games, tested by the median number of interactions."""
    needed = [np.inf if np.isnan(n) else n for n in scores.values("SC+").values()]
    half = median(needed)
    lower = [game for game, cells in scores.rows.items() if cells["DDQN+"].value < cells["DDQN"].value]
    return Check(
        "Introduction: DDQN's performance in less than 5M ± 1M interactions for almost half of the games",
        "5M ± 1M",
        f"{_within(needed, 5e6)} of {len(needed)} games within 5M, {_within(needed, 6e6)} within 6M",
        abs(half - 5e6) <= 1e6,
        f"half of the games need at most {half / 1e6:.1f}M by SC+, which counts until BDQN beats DDQN+; the paper does "
        f"not print when it beats DDQN, and on {', '.join(lower)} DDQN is above DDQN+",
    )


def _within(needed: Sequence[float], decisions: float) -> int:
    return sum(n <= decisions for n in needed)


def _derived_cells() -> Iterator[Check]:
    for game in GAMES:
        for column in RATIO_COLUMNS:
            cell, (low, high) = ratio_cells(game)[column], ratio_range(game, column)
            possible = low - 0.01 <= cell.value <= high + 0.01
            fraction = f"{score(game, 'BDQN').text} / {score(game, RATIO_COLUMNS[column]).text}"
            remark = "the rounding of the scores could explain it" if possible else "no rounding explains it"
            yield Check(
                f"Table 3, {full_name(game)}, {column}",
                cell.text,
                percent(ratio(game, column)),
                follows(game, column),
                f"{fraction}; {remark}",
            )


def _repeated_cells() -> Iterator[Check]:
    """Cells that appear in two tables."""
    for game in GAMES:
        for column, name in (("SC", "SC"), ("SC+", "SC+"), ("Step", "Steps")):
            first, second = score(game, column).text, ratio_cells(game)[name].text
            yield Check(f"Table 3, {full_name(game)}, {name}", second, first, first == second, "Table 2")
    for game, cells in DROPOUT.rows.items():
        for column in ("BDQN", "DDQN", "DDQN+", "Step"):
            first, second = score(game, column).text, cells[column].text
            yield Check(f"Table 4, {game}, {column}", second, first, first == second, "Table 2")


def _sample_complexities() -> Iterator[Check]:
    """A higher score cannot be beaten before a lower one, and a score that is never exceeded is never beaten."""
    for game in GAMES:
        cells = published.SCORES.rows[game]
        human, rival, sc, sc_plus = (cells[name].value for name in ("Human", "DDQN+", "SC", "SC+"))
        wrong = not np.isnan(sc) and ((human < rival and sc > sc_plus) or (rival < human and sc_plus > sc))
        yield Check(
            f"Table 2, {game}, SC and SC+",
            f"{cells['SC'].text} and {cells['SC+'].text}",
            "the lower score is beaten first",
            not wrong,
            f"Human is {cells['Human'].text}, DDQN+ {cells['DDQN+'].text}",
        )
        for name, column in (("SC", "Human"), ("SC+", "DDQN+")):
            mean, target = cells["BDQN"], cells[column]
            never = mean.value + mean.rounding <= target.value - target.rounding
            yield Check(
                f"Table 2, {game}, {name}",
                cells[name].text,
                "-" if never else cells[name].text,
                never == np.isnan(cells[name].value),
                f"BDQN is {mean.text}, {column} {target.text}",
            )
    yield Check(
        "Table 2, Pong, SC+",
        score("Pong", "SC+").text,
        "-",
        False,
        "DDQN+ is 21, the maximum of Pong: no score beats it",
    )


def _bold_cells() -> Iterator[Check]:
    """Bold marks the best score of a row, except the human score."""
    for game in GAMES:
        cells = {
            name: cell
            for name, cell in published.SCORES.rows[game].items()
            if name not in ("Human", "SC", "SC+", "Step")
        }
        top = max(cell.value for cell in cells.values())
        best = [name for name, cell in cells.items() if cell.value == top]
        bold = [name for name, cell in cells.items() if cell.bold]
        remark = f"{', '.join(cells[name].text for name in bold)} against {cells[best[0]].text}"
        yield Check(f"Table 2, {game}, bold", ", ".join(bold), ", ".join(best), bold == best, remark)


def _sentences() -> Iterator[Check]:
    """Sentences of the paper about its tables."""
    atlantis, dropout = score("Atlantis", "DDQN+").text, DROPOUT.rows
    better = [g for g, cells in dropout.items() if cells["Dropout-DDQN"].value > cells["Random"].value]
    yield Check("Experiments: DDQN+ on Atlantis", "64.67k", atlantis, False, "Table 2")
    yield Check(
        "Experiments: dropout falls short of a random policy",
        "yes",
        f"no, on {len(better)} of {len(dropout)} games",
        False,
        f"Table 4: it is better on {', '.join(better)}",
    )
    yield Check(
        "Experiments: BDQN jumps on Atlantis around",
        "20M",
        "15M",
        False,
        "the caption of the repeated runs",
    )
    yield Check("Atlantis without the limit: 62M after", "15M", "16M", False, "the figure's caption")
    yield Check(
        "Computational cost: minibatches of 32, 25k of them, in units of 100k samples",
        "16",
        f"{32 * 25_000 / 100_000:.0f}",
        False,
        "so BDQN's last layer sees 8 times fewer samples, not 16",
    )
    yield Check("Computational cost: 10 T^BT", "100k", "1M", False, "Table 5: T^BT = 10 T^T = 100k")
    yield Check(
        "Table 2, Asterix, NoisyNet",
        "11.0",
        "11.0k",
        False,
        "a thousandth of the other scores: a k seems to be missing",
    )
