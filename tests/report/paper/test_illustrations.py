"""The two illustrations show the numbers that they are given, and those that follow from them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

import bdqn
from bdqn.report.paper.illustrations import exploration_figure, safety_figure

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "thompson-sampling.md"


def heights(axes: Axes) -> list[float]:
    return [bar.get_height() for bar in axes.patches]


def test_the_bars_are_how_often_each_action_is_taken() -> None:
    mean, std = np.log([4.0, 2.0, 1.0, 1.0]), np.array([1e-9, 1e-9, 1e-9, 1e-9])
    beliefs = {"first": (mean, std), "second": (np.array([1.0, 0.0, -9.0, -9.0]), np.array([0.6, 0.8, 0.1, 0.1]))}
    figure = exploration_figure(beliefs, np.random.default_rng(0), epsilon=0.4, temperature=1.0)
    first, second = np.array(figure.axes).reshape(4, 2).T
    assert first[0].get_title(loc="left") == "first"
    np.testing.assert_array_equal(first[0].lines[1].get_ydata(), mean)
    np.testing.assert_allclose(heights(first[1]), [0.7, 0.1, 0.1, 0.1])
    np.testing.assert_allclose(heights(first[2]), [4 / 8, 2 / 8, 1 / 8, 1 / 8])
    np.testing.assert_allclose(heights(first[3]), [1, 0, 0, 0])
    np.testing.assert_allclose(heights(second[3]), [0.8413, 0.1587, 0, 0], atol=0.005)  # Phi(1)
    assert [text.get_text() for text in first[2].texts] == ["50 %", "25 %", "12 %", "12 %"]


def test_the_safest_of_equals_is_the_least_unsure() -> None:
    """Of a standard Gaussian, 5 % lie below -1.645, and their mean is -2.063."""
    figure = safety_figure(np.array([1.0, 1.0]), np.array([2.0, 0.5]), names=["wide", "narrow"])
    wide, narrow = figure.axes
    assert wide.get_title(loc="left") == "wide"
    assert narrow.get_title(loc="left") == "narrow: the safest"
    for axes, bound, risk in ((wide, -2.29, -3.13), (narrow, 0.18, -0.03)):
        assert f"worst 5 %: below {bound:.2f},\non average {risk:.2f}" in axes.texts[0].get_text()
    value, density = narrow.lines[0].get_data()
    assert density.max() == pytest.approx(1 / (0.5 * np.sqrt(2 * np.pi)), rel=1e-3)
    assert np.trapezoid(density, value) == pytest.approx(1, rel=1e-3)
    tail = narrow.collections[1].get_paths()[0].vertices
    assert tail[:, 0].max() == pytest.approx(0.18, abs=0.03)


def test_what_is_no_belief_about_one_observation_is_refused() -> None:
    batch = np.zeros((2, 3))
    with pytest.raises(ValueError, match="of one observation"):
        exploration_figure({"": (batch, batch)}, np.random.default_rng(0))
    with pytest.raises(ValueError, match="of one observation"):
        safety_figure(np.zeros(3), np.ones(2))
    with pytest.raises(ValueError, match="positive standard deviations"):
        safety_figure(np.zeros(2), np.array([1.0, 0.0]))


def test_the_example_draws_what_the_page_says(tmp_path: Path) -> None:
    program = (
        "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__'); sys.exit('torch' in sys.modules)"
    )
    words = [sys.executable, "-c", program, str(ROOT / "examples" / "illustrations.py"), "--out", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0
    assert set(map(Path, done.stdout.splitlines())) == set(tmp_path.iterdir()), "it says what it writes"
    assert set(re.findall(r"\(images/(\w+\.png)\)", PAGE.read_text())) == {path.name for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        assert (ROOT / "docs" / "images" / path.name).exists()


def test_the_example_writes_into_no_documentation_unless_it_is_told_to(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "examples" / "illustrations.py")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["out/illustrations/exploration.png", "out/illustrations/safety.png"]
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_the_pages_program_draws_an_agents_belief(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bdqn.make("bdqn", "CartPole-v1", features=8, buffer_size=100).save("agent")
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    exec(program.replace("runs/CartPole-v1/bdqn/TIME_sSEED", "agent"), {})
    for name in ("exploration.png", "safety.png"):
        assert (tmp_path / name).stat().st_size > 10_000
