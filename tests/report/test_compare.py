"""``bdqn compare``: what a sweep's files say, and what is missing from them."""

from __future__ import annotations

import csv
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from bdqn.cli import main
from bdqn.report.compare import read_comparison, read_results
from bdqn.report.figures import curves_figure
from bdqn.report.growth import growth_figure, read_published, solved_at, solved_by_size

ENV, OTHER = "CartPole-v1", "Acrobot-v1"
Returns = list[float]


class Folder:
    """A sweep's directory, written by hand: episodes of ten decisions each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = ["trial,group,agent,env,seed"]
        folder.mkdir()

    def add(self, group: str, env: str, seed: int, returns: Returns, *, planned: int | None = None) -> Path:
        name = f"{len(self.rows):016x}"
        self.rows.append(f"{name},{group},dqn,{env},{seed}")
        run = self.folder / "trials" / name
        decisions = 10 * len(returns)
        (run / "checkpoints" / f"gen-{decisions:012d}").mkdir(parents=True)
        (run / "config.toml").write_text(
            f'env = "{env}"\nseed = {seed}\nagent = "dqn"\nsteps = {planned or decisions}\n'
        )
        lines = [f"{10 * (i + 1)},0,{value},10,0" for i, value in enumerate(returns)]
        (run / "episodes.csv").write_text("\n".join(["step,env,return,length,truncated", *lines]) + "\n")
        self.write()
        return run

    def write(self) -> None:
        (self.folder / "trials.csv").write_text("\n".join(self.rows) + "\n")


@pytest.fixture
def sweep(tmp_path: Path) -> Folder:
    """Two agents, two environments, three seeds: the second is twice and four times as good."""
    folder = Folder(tmp_path / "sweep")
    for env, factor in ((ENV, 2.0), (OTHER, 4.0)):
        for seed in range(3):
            folder.add("old", env, seed, [float(seed + 1)] * 200)
            folder.add("new", env, seed, [factor * (seed + 1)] * 200)
    return folder


def table(folder: Path, statistic: str) -> dict[tuple[str, str, str], dict[str, str]]:
    with (folder / "tables.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["statistic"] == statistic and row["env"] != "all"]
        return {(row["env"], row["group"], row["score"]): row for row in rows}


def over_all(folder: Path, statistic: str, group: str, score: str, baseline: str = "old") -> list[float]:
    """Estimate, low and high."""
    with (folder / "tables.csv").open(newline="") as file:
        place = {"env": "all", "statistic": statistic, "group": group, "score": score, "baseline": baseline}
        (row,) = [row for row in csv.DictReader(file) if row.items() >= place.items()]
    return [float(row[name]) for name in ("estimate", "low", "high")]


def test_the_tables_hold_what_the_runs_did(sweep: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(sweep.folder)]) == 0
    output = capsys.readouterr().out
    assert "note:" not in output
    means = table(sweep.folder, "mean")
    assert float(means[ENV, "old", "final"]["estimate"]) == 2.0  # of 1, 2 and 3
    assert float(means[ENV, "new", "area"]["estimate"]) == pytest.approx(4.0)
    assert means[ENV, "old", "final"]["seeds"] == "3"
    assert 1.0 <= float(means[ENV, "old", "final"]["low"]) < 2.0 < float(means[ENV, "old", "final"]["high"]) <= 3.0
    assert float(table(sweep.folder, "difference")[OTHER, "new", "final"]["estimate"]) == 6.0  # 8 and 2
    ratios = table(sweep.folder, "ratio")
    # Paired by seed the ratio is the same for every resample.
    for env, expected in ((ENV, 2.0), (OTHER, 4.0)):
        row = ratios[env, "new", "area"]
        assert [float(row[name]) for name in ("estimate", "low", "high")] == pytest.approx([expected] * 3, rel=1e-5)
    assert over_all(sweep.folder, "ratio", "new", "area") == pytest.approx([8.0**0.5] * 3, rel=1e-5)
    # CartPole: 2, 4, 6 against 1, 2, 3: 7 of 9 pairs are won and 1 is even; Acrobot: 4, 8, 12 win all.
    assert over_all(sweep.folder, "P(higher)", "new", "final")[0] == pytest.approx(((7 + 0.5) / 9 + 1) / 2)
    assert "2.000 (2.000 to 2.000)" in output
    for name in ("curves.png", "profiles.png"):
        assert (sweep.folder / name).stat().st_size > 10_000


FEW = "Intervals of few seeds are too narrow: a 95 % interval contains the true mean in 50 % of cases with 2 seeds, "


def test_intervals_of_few_seeds_come_with_the_warning_of_a_report(
    sweep: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(sweep.folder)]) == 0
    assert FEW in " ".join(capsys.readouterr().out.split()), "three"
    assert FEW.replace("%", r"\%") in (sweep.folder / "tables.tex").read_text()
    assert main(["report", str(sweep.folder), "--out", str(tmp_path / "page.html")]) == 0
    assert FEW in (tmp_path / "page.html").read_text()
    for group, env, seed in product(("old", "new"), (ENV, OTHER), range(3, 10)):
        sweep.add(group, env, seed, [5.0] * 200)
    capsys.readouterr()
    assert main(["compare", str(sweep.folder)]) == 0
    assert "too narrow" not in capsys.readouterr().out, "ten"


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_the_terminal(
    sweep: Folder, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(3):
        sweep.add("old exploration_final_eps=0.05", ENV, seed, [1234.5 + seed] * 200)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["compare", str(sweep.folder)]) == 0
    printed = capsys.readouterr().out.splitlines()[:-1]  # the last names the files
    assert max(map(len, printed)) <= width
    against = printed.index("Against old, paired by seed; intervals of 95 %")
    block = printed[against + 2 : printed.index("", against + 2)]
    statistics = ["ratio", "difference", "P(higher)"]
    assert block[0] == f"{ENV}, final (3 seeds)"
    assert block[1].split() == ["group", *(statistics if width == 120 else statistics[:1])]
    assert len(block) == 4, "a line for either group"
    for name in statistics:
        assert any(name in line.split() for line in printed[against:]), "below, where there is no room"


def test_a_table_for_a_paper_has_the_differences(sweep: Folder) -> None:
    assert main(["compare", str(sweep.folder)]) == 0
    text = (sweep.folder / "tables.tex").read_text()
    for name in ("scores", "differences", "over-all"):
        assert text.count(f"\\label{{tab:{name}}}") == 1
    assert f"{OTHER} & new & final & 3 & 4.000 (4.000 to 4.000) & 6.00 (" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == text.count(r"\caption{") == 3
    assert "intervals of 95 \\%" in text


@pytest.mark.parametrize("kind", ["pdf", "svg"])
def test_figures_come_in_other_formats_and_as_the_same_bytes(
    sweep: Folder, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, time in (("a", "1000000000"), ("b", "2000000000")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", time)  # what the clock says to figures
        assert main(["compare", str(sweep.folder), "--out", str(tmp_path / name), "--format", kind]) == 0
    for name in ("curves", "profiles"):
        first, second = (tmp_path / folder / f"{name}.{kind}" for folder in ("a", "b"))
        assert first.read_bytes() == second.read_bytes()
        assert first.read_bytes()[:5] in (b"%PDF-", b"<?xml")
    assert not (tmp_path / "a" / "curves.png").exists()


def test_a_format_that_there_is_not_is_refused(sweep: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(sweep.folder), "--format", "png,pfd"]) == 2
    assert "Unknown figure format 'pfd'; did you mean pdf" in capsys.readouterr().err


def test_small_scores_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of DeepSea are of the order of 0.01."""
    folder = Folder(tmp_path / "sweep")
    for seed in range(2):
        folder.add("old", ENV, seed, [-0.00445 - seed / 1000] * 200)
    assert main(["compare", str(folder.folder)]) == 0
    assert "-0.00495 (-0.00545 to -0.00445)" in capsys.readouterr().out


def test_environments_are_put_together_in_units_of_the_baselines_mean(sweep: Folder) -> None:
    """Which is 2 on both: old runs count 0.5, 1 and 1.5; new ones 1, 2, 3 and 2, 4, 6."""
    sweep.add("old", ENV, 3, [2.0] * 200)  # its mean stays
    sweep.add("new", ENV, 3, [4.0] * 200)
    assert main(["compare", str(sweep.folder)]) == 0
    estimates = {
        (group, name): over_all(sweep.folder, name, group, "final")[0]
        for group in ("old", "new")
        for name in ("mean", "median", "IQM", "gap")
    }
    assert estimates == pytest.approx(
        {
            ("old", "mean"): 1.0,
            ("old", "median"): 1.0,
            ("old", "IQM"): 1.0,  # 0.5 0.5 1 1 1 1.5 1.5: a quarter of seven is one
            ("old", "gap"): (0.5 / 4 + 0.5 / 3) / 2,
            ("new", "mean"): 3.0,
            ("new", "median"): 3.0,
            ("new", "IQM"): 13 / 5,  # 1 | 2 2 2 3 4 | 6
            ("new", "gap"): 0.0,
        },
        rel=1e-5,
    )


def test_a_lower_level_is_narrower(sweep: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    widths = []
    for level in ("0.5", "0.99"):
        assert main(["compare", str(sweep.folder), "--level", level, "--out", str(tmp_path / level)]) == 0
        row = table(tmp_path / level, "mean")[ENV, "old", "final"]
        widths.append(float(row["high"]) - float(row["low"]))
    assert widths[0] < widths[1]
    assert "intervals of 99 %" in capsys.readouterr().out
    assert main(["compare", str(sweep.folder), "--level", "95"]) == 2
    assert "--level must be between 0 and 1" in capsys.readouterr().err


def test_the_baseline_can_be_chosen(sweep: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(sweep.folder), "--baseline", "new", "--out", str(tmp_path / "page")]) == 0
    assert float(table(tmp_path / "page", "ratio")[ENV, "old", "final"]["estimate"]) == pytest.approx(0.5)
    assert not (sweep.folder / "tables.csv").exists()
    assert main(["compare", str(sweep.folder), "--baseline", "nwe"]) == 2
    assert "Unknown group 'nwe'; did you mean new" in capsys.readouterr().err


def test_the_same_seed_gives_the_same_tables(sweep: Folder, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["compare", str(sweep.folder), "--out", str(tmp_path / name)]) == 0
    for name in ("tables.csv", "runs.csv", "curves.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_evaluations_are_a_score_of_their_own(sweep: Folder) -> None:
    for row in csv.DictReader(sweep.rows):
        path = sweep.folder / "trials" / row["trial"] / "evaluations.csv"
        path.write_text(f"step,mean_reward,std_reward,episodes\n1000,{5 + int(row['seed'])},0,10\n")
    assert main(["compare", str(sweep.folder)]) == 0
    assert float(table(sweep.folder, "mean")[ENV, "new", "evaluation"]["estimate"]) == 6.0


def test_runs_of_unequal_length_are_compared_over_what_all_have(
    sweep: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep.add("new", ENV, 3, [8.0] * 120)
    assert main(["compare", str(sweep.folder)]) == 0
    output = capsys.readouterr().out
    assert f"note: {ENV}: runs are compared over their first 1,200 decisions" in output
    assert OTHER + ": runs are compared" not in output
    assert float(table(sweep.folder, "mean")[ENV, "new", "final"]["estimate"]) == 5.0  # of 2, 4, 6 and 8


def test_a_run_that_has_only_begun_takes_nothing_from_the_others(
    sweep: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep.add("new", ENV, 3, [8.0] * 120, planned=2_000)
    sweep.add("new", ENV, 4, [8.0] * 220, planned=4_000)  # has all that the finished ones have
    assert main(["compare", str(sweep.folder)]) == 0
    output = capsys.readouterr().out
    assert f"note: new on {ENV}, seed 3 has taken 1,200 of 2,000 decisions. It is left out." in output
    assert f"note: new on {ENV}, seed 4 has taken 2,200 of 4,000 decisions.\n" in output
    assert f"note: {ENV}: runs are compared over their first 2,000 decisions" in output
    row = table(sweep.folder, "mean")[ENV, "new", "final"]
    assert (row["seeds"], float(row["estimate"])) == ("4", 5.0)  # of 2, 4, 6 and 8


def test_runs_that_have_all_only_begun_are_compared_over_what_they_have(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "sweep")
    for seed, episodes in enumerate((120, 150)):
        folder.add("new", ENV, seed, [1.0] * episodes, planned=2_000)
    found = read_comparison(folder.folder)
    assert [round(float(result.step[-1])) for result in found.results] == [1_200, 1_200]
    assert "left out" not in "".join(found.remarks)


def test_a_run_that_failed_is_missing_however_well_it_did(sweep: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    failed = sweep.add("new", ENV, 3, [1000.0] * 60, planned=2_000)
    (failed / "meta.json").write_text('{"status": "failed"}')
    assert main(["compare", str(sweep.folder)]) == 0
    assert f"note: new on {ENV}, seed 3 is missing: it failed after 600 decisions" in capsys.readouterr().out
    assert float(table(sweep.folder, "mean")[ENV, "new", "final"]["estimate"]) == 4.0  # of 2, 4 and 6


def test_a_finished_run_without_checkpoints_is_finished(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "sweep")
    for seed in (0, 1):
        run = folder.add("new", ENV, seed, [1.0] * 150, planned=1_507)  # an episode was going on at its end
        shutil.rmtree(run / "checkpoints")
        (run / "meta.json").write_text('{"status": "finished"}')
    found = read_comparison(folder.folder)
    assert [result.decisions for result in found.results] == [1_507, 1_507]
    assert "has taken" not in "".join(found.remarks)


def test_only_what_came_before_the_common_end_counts(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "sweep")
    for seed in range(2):
        folder.add("long", ENV, seed, [1.0] * 200 + [100.0] * 200)
        folder.add("short", ENV, seed, [1.0] * 200)
    comparison = read_comparison(folder.folder)
    assert comparison.scores("long", "final") == {ENV: {0: 1.0, 1: 1.0}}
    assert comparison.scores("long", "area")[ENV][0] == pytest.approx(1.0)


def test_missing_trials_are_named(sweep: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    sweep.rows.append(f"{99:016x},new,dqn,{ENV},9")
    sweep.write()
    sweep.add("new", OTHER, 8, [])
    for seed, damage in enumerate(("evaluations.csv", "config.toml", "episodes.csv"), start=20):
        (sweep.add("new", ENV, seed, [5.0] * 200) / damage).write_text("nonsense = 1\n")
    sweep.add("alone", ENV, 0, [5.0] * 200)
    assert main(["compare", str(sweep.folder)]) == 0
    output = capsys.readouterr().out
    assert f"note: new on {ENV}, seed 9 is missing: " in output
    for seed in (20, 21, 22):
        assert f"note: new on {ENV}, seed {seed} is missing: " in output
    assert f"note: new on {OTHER}, seed 8 is missing: no episode has ended." in output
    assert f"note: alone on {ENV} has a single seed" in output
    assert not any(group == "alone" for _, group, _ in table(sweep.folder, "mean"))


def test_where_there_is_no_ratio_there_is_no_row(tmp_path: Path) -> None:
    """Returns of MountainCar are negative."""
    folder = Folder(tmp_path / "sweep")
    for seed in range(3):
        folder.add("old", ENV, seed, [-200.0 + seed] * 150)
        folder.add("new", ENV, seed, [-100.0 + seed] * 150)
    assert main(["compare", str(folder.folder)]) == 0
    assert table(folder.folder, "ratio") == {}
    assert table(folder.folder, "difference")[ENV, "new", "final"]["estimate"] == "100"
    assert table(folder.folder, "P(higher)")[ENV, "new", "final"]["estimate"] == "1"
    assert not (folder.folder / "profiles.png").exists()


@pytest.mark.parametrize(("level", "low", "high"), [(0.99, 2.0, 6.0), (0.5, 10 / 3, 14 / 3)])
def test_a_band_holds_the_mean_of_its_curves(sweep: Folder, level: float, low: float, high: float) -> None:
    """Of new's 2, 4 and 6 a resample has the mean 2 in 1 of 27 cases, at most 8/3 in 4, and at most 10/3 in 10."""
    figure = curves_figure(read_comparison(sweep.folder).results, np.random.default_rng(0), level)
    axes = figure.axes[0]
    assert axes.get_title() == ENV
    line, band = axes.lines[1], axes.collections[1].get_paths()[0].vertices
    assert line.get_ydata()[-1] == 4.0
    assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((low, high))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["old (3 seeds)", "new (3 seeds)"]
    assert not any(panel.get_legend() for panel in figure.axes), "it would hide lines"


def test_a_legend_says_how_many_seeds_a_group_has_wherever_it_was_run(sweep: Folder) -> None:
    sweep.add("new", OTHER, 7, [1.0] * 200)
    sweep.add("alone", ENV, 7, [1.0] * 200)
    (legend,) = curves_figure(read_comparison(sweep.folder).results, np.random.default_rng(0)).legends
    names = [text.get_text() for text in legend.get_texts()]
    assert sorted(names) == ["alone (1 seed)", "new (3 to 4 seeds)", "old (3 seeds)"]


def test_runs_and_curves_are_kept_in_small_files(sweep: Folder, tmp_path: Path) -> None:
    """From which an experiment's figures are drawn again without its runs."""
    assert main(["compare", str(sweep.folder), "--out", str(tmp_path / "results")]) == 0
    with (tmp_path / "results" / "runs.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    assert len(runs) == 12
    assert runs[0] == {
        "env": ENV,
        "group": "old",
        "seed": "0",
        "decisions": "2000",
        "final": "1",
        "area": "1",
        "evaluation": "",
    }
    kept, own = read_results(tmp_path / "results"), read_comparison(sweep.folder)
    assert kept.remarks == own.remarks == ()
    for a, b in zip(kept.results, own.results, strict=True):
        assert (a.label, a.decisions, a.final, a.area) == (b.label, b.decisions, b.final, pytest.approx(b.area))
        np.testing.assert_allclose(a.step, b.step, rtol=1e-5)
        np.testing.assert_allclose(a.curve, b.curve, rtol=1e-3)


def test_kept_files_that_are_not_what_they_should_be_are_named(sweep: Folder, tmp_path: Path) -> None:
    results = tmp_path / "results"
    assert main(["compare", str(sweep.folder), "--out", str(results)]) == 0
    lines = (results / "curves.csv").read_text().splitlines()
    (results / "curves.csv").write_text("\n".join(line for line in lines if not line.startswith(f"{ENV},new,1")))
    with pytest.raises(ValueError, match=f"has no curve for new on {ENV}, seed 1"):
        read_results(results)
    (results / "runs.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"runs\.csv must have the columns env, group, seed"):
        read_results(results)


def test_a_run_that_ends_at_once_leaves_its_environment_without_scores(
    sweep: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anyone's first episode had ended."""
    run = sweep.add("new", ENV, 3, [1.0], planned=5)
    (run / "checkpoints" / "gen-000000000010").rename(run / "checkpoints" / "gen-000000000005")
    assert main(["compare", str(sweep.folder)]) == 0
    output = capsys.readouterr().out
    assert f"{ENV}, seed 3: area is unknown, so new has none on {ENV}." in output
    assert {env for env, _, _ in table(sweep.folder, "mean")} == {OTHER}


def test_seeds_that_differ_are_named(sweep: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    sweep.add("new", ENV, 3, [8.0] * 200)
    assert main(["compare", str(sweep.folder)]) == 0
    output = capsys.readouterr().out
    assert f"note: new and old have different seeds on {ENV} and are not paired there." in output
    assert f"different seeds on {OTHER}" not in output


def test_runs_with_other_settings_than_their_group_are_named(sweep: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    """As when a sweep file was changed, and its new seeds were added to the old ones."""
    run = sweep.add("new", ENV, 3, [8.0] * 200)
    with (run / "config.toml").open("a") as file:
        file.write("[settings]\ngamma = 0.5\n")
    assert main(["compare", str(sweep.folder)]) == 0
    assert f"new on {ENV}, seed 3 has other settings than the first run of its group: gamma." in capsys.readouterr().out


@pytest.mark.parametrize("what", ["nothing", "a run"])
def test_what_is_no_sweep_is_refused(tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    if what == "a run":
        (tmp_path / "x").mkdir()
    assert main(["compare", str(tmp_path / "x")]) == 2
    assert "give the directory that bdqn sweep printed" in capsys.readouterr().err


def test_a_sweep_that_has_just_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Folder(tmp_path / "sweep")
    folder.add("old", ENV, 0, [])
    assert main(["compare", str(folder.folder)]) == 2
    assert "no trial has a finished episode yet" in capsys.readouterr().err


# --- published lines ------------------------------------------------------------------------------------------------


def deep_sea(folder: Path) -> Folder:
    """One group solves N = 10 and 20 at their eleventh and thirty-first episode, another only one of two runs."""
    sweep = Folder(folder)
    for seed in range(2):
        sweep.add("new", "bdqn/DeepSea10-v0", seed, [0.0] * 9 + [0.99] * 50)
        sweep.add("new", "bdqn/DeepSea20-v0", seed, [0.0] * 27 + [0.99] * 50)
        sweep.add("old", "bdqn/DeepSea10-v0", seed, [0.99 * seed] * 59)
    return sweep


def test_solved_means_that_a_tenth_of_all_episodes_found_the_treasure() -> None:
    assert solved_at(np.array([0.0] * 27 + [0.99] * 50)) == 31, "three of thirty are a tenth, four of 31 are more"
    assert solved_at(np.array([0.99, 0.0])) == 1
    assert solved_at(np.array([0.0, 0.5, 0.0])) == ""


def test_published_numbers_are_those_of_their_sources() -> None:
    """10^-0.5 100^3 and 10^-0.95 100^2.5; a million decisions of 100 to an episode."""
    at_100 = {other.name: float(other.episodes[other.sizes == 100][0]) for other in read_published()}
    assert at_100 == {
        "bootstrapped DQN with priors": pytest.approx(316_228, rel=1e-5),
        "Successor Uncertainties": pytest.approx(11_220, rel=1e-4),
        "HyperAgent's budget": 10_000,
    }
    assert all(word for other in read_published() for word in (other.source, other.where, other.meaning))


def test_published_lines_are_drawn_beside_our_runs_and_name_their_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = deep_sea(tmp_path / "sweep")
    assert main(["compare", str(sweep.folder)]) == 0
    plain, tables = capsys.readouterr().out, (sweep.folder / "tables.csv").read_bytes()
    assert "Janz" not in plain
    assert not (sweep.folder / "published.png").exists()
    assert main(["compare", str(sweep.folder), "--published"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "new: episodes to solve grow as N^1.49 (95 %: 1.49 to 1.49), over N = 10 (2 runs), 20 (2 runs)." in output
    assert "No size was solved on all runs by old: no growth to fit." in output
    assert (
        "bootstrapped DQN with priors (Osband et al. 2018, as drawn by Janz et al. 2019): 0.32 N^3 episodes" in output
    )
    assert "Successor Uncertainties (Janz et al. 2019): 0.11 N^2.5 episodes, N = 20 to 180." in output
    assert "Read in github.com/szrlee/HyperAgent" in output
    assert (sweep.folder / "published.png").stat().st_size > 10_000
    assert (sweep.folder / "tables.csv").read_bytes() == tables


def test_the_legend_of_published_lines_names_their_sources_and_they_end_where_our_runs_do() -> None:
    runs = [("bdqn/DeepSea50-v0", "new", 900), ("CartPole-v1", "new", 7), ("bdqn/StochasticDeepSea20-v0", "new", 8)]
    solved = solved_by_size(runs)
    assert {group: {size: list(at) for size, at in sizes.items()} for group, sizes in solved.items()} == {
        "new": {50: [900.0]}
    }
    figure, _ = growth_figure(solved, np.random.default_rng(0), 0.9)
    lines = {str(line.get_label()): line.get_xdata() for line in figure.axes[0].lines}
    assert set(lines) == {
        "new",
        "bootstrapped DQN with priors (0.32 N^3): Osband et al. 2018, as drawn by Janz et al. 2019",
        "Successor Uncertainties (0.11 N^2.5): Janz et al. 2019",
        "HyperAgent's budget: Li et al. 2024",
    }
    assert {float(np.max(x)) for x in lines.values()} == {50.0}  # type: ignore[arg-type]


def test_published_lines_need_runs_of_deep_sea(sweep: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(sweep.folder), "--published"]) == 2
    assert "--published needs runs of DeepSea under ids that name the size" in capsys.readouterr().err
    assert not (sweep.folder / "tables.csv").exists()
