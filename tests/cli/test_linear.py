"""``bdqn linear`` as users meet it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from bdqn.cli import linear, main
from bdqn.report.regret import growth, read_regret

SHORT = ("--episodes", "30", "--seeds", "3", "--quiet")


def test_it_leaves_a_table_and_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agents = ("linpsrl", "linucb", "linucb:radius=data,scale=0.1", "psrl")
    assert main(["linear", "--mdp", "linear-q:horizon=2", "--agents", *agents, *SHORT, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "linucb:radius=data,scale=0.1" in printed
    assert "T^" in printed
    assert (tmp_path / "regret.png").stat().st_size > 10_000
    curves = {curve.agent: curve for curve in read_regret(tmp_path / "regret.csv")}
    assert tuple(curves) == agents
    for curve in curves.values():
        assert curve.seeds == (0, 1, 2)
        assert curve.episode[-1] == 30
        assert (np.diff(curve.regret, axis=1) >= -1e-4).all()  # the exact regret of an episode is never negative
    assert (curves["linucb"].certificate >= curves["linucb"].trajectory_regret - 1e-4).all()
    assert (curves["linucb"].bound >= curves["linucb"].certificate).all()
    assert np.isnan(curves["linpsrl"].certificate).all()
    assert np.isnan(curves["psrl"].bound).all()


def test_table_and_figure_tell_the_same_growth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], figures: list[Figure]
) -> None:
    many = ("--episodes", "60", "--seeds", "15", "--quiet")  # few seeds hide that intervals are drawn anew
    assert main(["linear", "--agents", "linpsrl", "linucb", *many, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    legend = figures[0].axes[0].get_legend()
    assert legend is not None
    labels = [text.get_text().split(": ") for text in legend.get_texts()]
    assert [agent for agent, _ in labels] == ["linpsrl", "linucb"]
    for agent, growth_of_it in labels:
        (row,) = [line for line in printed.splitlines() if line.startswith(f"{agent} ")]
        assert growth_of_it in row


@pytest.mark.usefixtures("figures")
def test_progress_comes_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []

    @contextmanager
    def seldom(total: int, *, quiet: bool) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(interval=1e9, show=lambda step, mean_return: shown.append(step))
        assert shown[-1] == total

    monkeypatch.setattr(linear, "progress", seldom)
    assert main(["linear", "--agents", "linpsrl", "psrl", *SHORT, "--out", str(tmp_path)]) == 0
    assert shown == [3 * 3, 2 * 30 * 3 * 3]  # decisions: the first episode's, and all


@pytest.mark.usefixtures("figures")
def test_another_problem_does_not_write_over_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["linear", "--agents", "linpsrl", *SHORT]
    for problem in ("bandit", "linear-q:horizon=2,noise=0.2"):
        assert main([*command, "--mdp", problem]) == 0
    folders = [tmp_path / "out" / "linear" / name for name in ("bandit", "linear-q-horizon=2-noise=0.2")]
    assert all((folder / "regret.csv").is_file() for folder in folders)
    before = (folders[0] / "regret.csv").read_bytes()
    assert main([*command, "--mdp", "bandit"]) == 0  # the same again gives the same
    for other in (["--mdp", "bandit", "--seeds", "2"], ["--mdp", "deep-sea", "--out", str(folders[0])]):
        capsys.readouterr()
        assert main([*command, *other]) == 2
        refusal = capsys.readouterr().err
        assert "bdqn linear --mdp bandit --agents linpsrl --episodes 30 --seeds 3: choose another directory" in refusal
    assert (folders[0] / "regret.csv").read_bytes() == before


@pytest.mark.usefixtures("figures")
def test_certificate_and_bound_are_explained_where_they_are_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["linear", *SHORT, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["linear", "--help"])
    helped = capsys.readouterr().out
    for text in (printed, helped):
        flowing = " ".join(text.split())
        for name, meaning in linear.COLUMNS.items():
            assert f"{name} {meaning}" in flowing


def test_same_command_same_bytes(tmp_path: Path) -> None:
    for name, more in (("a", []), ("b", []), ("c", ["--instance", "0"])):
        assert main(["linear", "--mdp", "bandit", *SHORT, *more, "--out", str(tmp_path / name)]) == 0
    tables = [(tmp_path / name / "regret.csv").read_bytes() for name in "abc"]
    assert tables[0] == tables[1]
    assert tables[0] != tables[2]  # one instance for all seeds is another experiment


def test_a_narrow_prior_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linear", "--agents", "linpsrl:prior_var=1e-4", *SHORT, "--out", str(tmp_path)]) == 0
    assert "note: The prior variance 0.0001 is below" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--mdp linaer-q", "did you mean linear-q"),
        ("--agents linpslr", "did you mean linpsrl"),
        ("--agents linucb:delt=0.1", "agent linucb has no setting 'delt'; did you mean delta?"),
        ("--agents linucb:delta", "agent linucb takes setting=value, not 'delta'"),
        ("--agents linucb:delta=1.5", "delta must be between 0 and 1, both excluded, not 1.5"),
        ("--agents linucb:ridge=0", "ridge (lambda) must be above 0, not 0.0"),
        ("--agents linucb:radius=exact", "radius must be one of theory, paper, data"),
        ("--mdp linear-q:horizon=0", "horizon must be at least 1, not 0"),
        ("--mdp linear-q:dim=1", "dim must be at least 2"),
        ("--mdp linear-q:noise=nan", "noise must be a finite number"),
        ("--episodes 0", "--episodes must be at least 1"),
        ("--seeds 0", "--seeds must be at least 1"),
    ],
)
def test_mistakes_are_refused_with_a_remedy(arguments: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linear", *arguments.split()]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert "Traceback" not in captured.err


def test_the_exponent_of_known_curves() -> None:
    t = np.arange(1, 1001)
    curves = np.sqrt(t) * np.array([[1.0], [2.0], [3.0]])
    fitted = growth(t, curves, np.random.default_rng(0))
    assert fitted.exponent == pytest.approx(0.5, abs=1e-3)
    assert fitted.high - fitted.low < 1e-3  # seeds differ in scale only
    assert growth(t, t * np.ones((3, 1)), np.random.default_rng(0)).exponent == pytest.approx(1)
