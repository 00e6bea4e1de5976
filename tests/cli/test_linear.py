"""``bdqn linear`` as users meet it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bdqn.cli import main
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
