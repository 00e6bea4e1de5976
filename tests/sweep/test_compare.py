"""``bdqn compare``: what a sweep's files say, and what is missing from them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from bdqn.cli import main
from bdqn.report.compare import curves_figure, curves_of, read_comparison, read_curves

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


def table(path: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    with path.open(newline="") as file:
        return {(row["env"], row["group"], row["score"]): row for row in csv.DictReader(file)}


def test_the_tables_hold_what_the_runs_did(sweep: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(sweep.folder)]) == 0
    output = capsys.readouterr().out
    assert "note:" not in output
    scores = table(sweep.folder / "scores.csv")
    assert float(scores[ENV, "old", "final"]["estimate"]) == 2.0  # of 1, 2 and 3
    assert float(scores[ENV, "new", "area"]["estimate"]) == pytest.approx(4.0)
    assert scores[ENV, "old", "final"]["seeds"] == "3"
    assert 1.0 <= float(scores[ENV, "old", "final"]["low"]) < 2.0 < float(scores[ENV, "old", "final"]["high"]) <= 3.0
    ratios = table(sweep.folder / "ratios.csv")
    # Paired by seed the ratio is the same for every resample.
    for env, expected in ((ENV, 2.0), (OTHER, 4.0), ("all", 8.0**0.5)):
        row = ratios[env, "new", "area"]
        assert [float(row[name]) for name in ("estimate", "low", "high")] == pytest.approx([expected] * 3, rel=1e-5)
    improvement = table(sweep.folder / "improvement.csv")["all", "new", "final"]
    # CartPole: 2, 4, 6 against 1, 2, 3: 7 of 9 pairs are won and 1 is even; Acrobot: 4, 8, 12 win all.
    assert float(improvement["estimate"]) == pytest.approx(((7 + 0.5) / 9 + 1) / 2)
    assert "2.000 (2.000 to 2.000)" in output
    assert (sweep.folder / "curves.png").stat().st_size > 10_000


def test_the_baseline_can_be_chosen(sweep: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(sweep.folder), "--baseline", "new", "--out", str(tmp_path / "page")]) == 0
    assert float(table(tmp_path / "page" / "ratios.csv")[ENV, "old", "final"]["estimate"]) == pytest.approx(0.5)
    assert not (sweep.folder / "ratios.csv").exists()
    assert main(["compare", str(sweep.folder), "--baseline", "nwe"]) == 2
    assert "There is no group 'nwe'; did you mean new" in capsys.readouterr().err


def test_the_same_seed_gives_the_same_tables(sweep: Folder, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["compare", str(sweep.folder), "--out", str(tmp_path / name)]) == 0
    for name in ("scores.csv", "ratios.csv", "improvement.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_evaluations_are_a_score_of_their_own(sweep: Folder) -> None:
    for row in csv.DictReader(sweep.rows):
        path = sweep.folder / "trials" / row["trial"] / "evaluations.csv"
        path.write_text(f"step,mean_reward,std_reward,episodes\n1000,{5 + int(row['seed'])},0,10\n")
    assert main(["compare", str(sweep.folder)]) == 0
    assert float(table(sweep.folder / "scores.csv")[ENV, "new", "evaluation"]["estimate"]) == 6.0


def test_runs_of_unequal_length_are_compared_over_what_all_have(
    sweep: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep.add("new", ENV, 3, [8.0] * 120, planned=2_000)  # was 8 up to decision 1,200
    assert main(["compare", str(sweep.folder)]) == 0
    output = capsys.readouterr().out
    assert f"note: new on {ENV}, seed 3 has taken 1,200 of 2,000 decisions." in output
    assert f"note: {ENV}: runs are compared over their first 1,200 decisions" in output
    assert OTHER + ": runs are compared" not in output
    assert float(table(sweep.folder / "scores.csv")[ENV, "new", "final"]["estimate"]) == 5.0  # of 2, 4, 6 and 8


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
    sweep.add("alone", ENV, 0, [5.0] * 200)
    assert main(["compare", str(sweep.folder)]) == 0
    output = capsys.readouterr().out
    assert f"note: new on {ENV}, seed 9 is missing: " in output
    assert f"note: new on {OTHER}, seed 8 is missing: no episode has ended." in output
    assert f"note: alone on {ENV} has a single seed" in output
    assert not any(group == "alone" for _, group, _ in table(sweep.folder / "scores.csv"))


def test_where_there_is_no_ratio_there_is_no_row(tmp_path: Path) -> None:
    """Returns of MountainCar are negative."""
    folder = Folder(tmp_path / "sweep")
    for seed in range(3):
        folder.add("old", ENV, seed, [-200.0 + seed] * 150)
        folder.add("new", ENV, seed, [-100.0 + seed] * 150)
    assert main(["compare", str(folder.folder)]) == 0
    assert table(folder.folder / "ratios.csv") == {}
    assert table(folder.folder / "improvement.csv")[ENV, "new", "final"]["estimate"] == "1"


def test_a_band_holds_the_mean_of_its_curves(sweep: Folder) -> None:
    figure = curves_figure(curves_of(read_comparison(sweep.folder)), np.random.default_rng(0))
    axes = figure.axes[0]
    assert axes.get_title() == ENV
    line, band = axes.lines[1], axes.collections[1].get_paths()[0].vertices
    assert line.get_ydata()[-1] == 4.0  # new: 2, 4 and 6
    assert band[:, 1].min() >= 2.0
    assert band[:, 1].max() <= 6.0
    assert axes.get_legend().get_texts()[1].get_text() == "new (3 seeds)"


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
    kept, own = read_curves(tmp_path / "results" / "curves.csv"), curves_of(read_comparison(sweep.folder))
    assert [(c.env, c.group, c.seed) for c in kept] == [(c.env, c.group, c.seed) for c in own]
    for a, b in zip(kept, own, strict=True):
        np.testing.assert_allclose(a.step, b.step, rtol=1e-5)
        np.testing.assert_allclose(a.value, b.value, rtol=1e-3)


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
    assert "holds no trial with a finished episode yet" in capsys.readouterr().err
