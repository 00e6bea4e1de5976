"""How long should a draw act: T^S, T~^S, or an episode?

Reads the CSV files of results/ only: python experiments/sample_interval/analysis.py
"""

from __future__ import annotations

from bdqn.report.experiment import Page, Study, of_statistic, verdict

# DeepSea returns nothing, or less, until its treasure is found: there is no ratio of that.
FILES = {"MinAtar": ("sweep.toml", "minatar.png", "ratio"), "DeepSea": ("deep_sea.toml", "deep_sea.png", "difference")}
WORDS = {"ratio": "over", "difference": "minus"}
KINDS = {"steps": ("T^S", "sample_interval"), "acting": ("T~^S", "acting_sample_interval")}


def lines_of(study: Study) -> dict[str, dict[str, str]]:
    """Groups by what is varied, and by how many decisions a draw acts."""
    lines: dict[str, dict[str, str]] = {}
    for trial in study.sweep.trials:
        kind = trial.group.split()[0]
        name, setting = KINDS.get(kind, ("an episode", ""))
        lines.setdefault(name, {})[f"{trial.settings[setting]:,}" if setting else "episode"] = trial.group
    return {name: lines[name] for name in ("T^S", "T~^S", "an episode") if name in lines}


page = Page(__file__)
page.say("# How long should a draw act?")
for title, (file, figure, statistic) in FILES.items():
    page.say(f"## {title}")
    study = page.read(file)
    rows = page.compare(study.found, "episode")
    page.points(
        [
            f"{row.env}, {row.group}: area {WORDS[statistic]} that with a draw per episode is {verdict(row)}."
            for row in of_statistic(rows, statistic)
        ]
    )
    page.settings(figure, rows, lines_of(study), "decisions that a draw acts")
page.write()
