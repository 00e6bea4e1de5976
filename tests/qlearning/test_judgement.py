"""Whether actions are safe: bounds and probabilities worked out by hand, and claims that hold on returns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from bdqn.config.settings import SettingError
from bdqn.qlearning.calibration import Calibration, NotCalibrated
from bdqn.qlearning.judgement import Gaussian, judge
from bdqn.qlearning.q_posterior import QPosterior

MEAN, STD, PREDICTIVE = np.array([10.0, 12.0]), np.array([1.0, 4.0]), np.array([2.0, 5.0])
RANKS = Calibration(0, tuple(np.array([float(i)]) for i in range(-49, 50)))  # distances -49 to 49, of 99 episodes
PLAIN, CALIBRATED = QPosterior(MEAN, STD, PREDICTIVE), QPosterior(MEAN, STD, PREDICTIVE, RANKS)


def test_a_bound_is_safe_where_it_reaches_the_threshold() -> None:
    found = judge(PLAIN, "lcb", 8.0, 0.9)
    np.testing.assert_allclose(found.degree, MEAN - 1.2816 * STD, atol=1e-3)
    assert found.safe.tolist() == [True, False]
    assert found.returns.spread == "epistemic"
    assert judge(PLAIN, "lcb", 8.0, 0.9, "predictive").safe.tolist() == [False, False]


def test_probabilities_are_those_of_the_belief() -> None:
    found = judge(PLAIN, "probability", 8.0, 0.9, "predictive")
    np.testing.assert_allclose(found.degree, norm.sf(8.0, MEAN, PREDICTIVE))
    assert judge(QPosterior(MEAN, 0 * STD, STD), "probability", 11.0).degree.tolist() == [0.0, 1.0]


def test_the_tail_mean_is_that_of_the_worst_share() -> None:
    draws = np.sort(np.random.default_rng(0).normal(size=400_000))
    assert Gaussian().tail_mean(0.1) == pytest.approx(draws[:40_000].mean(), abs=0.01)
    assert judge(PLAIN, "cvar", 6.0, 0.9).degree[0] == pytest.approx(10 - 1.755, abs=1e-3)


def test_calibrated_beliefs_count_distances_in_predictive_stds() -> None:
    """Of 99 episodes and the new one, 90 are to reach the bound: the tenth from below, -40."""
    found = judge(CALIBRATED, "lcb", -70.0)
    assert found.degree.tolist() == [10 - 40 * 2, 12 - 40 * 5]
    assert found.safe.tolist() == [True, False]
    assert found.returns.spread == "calibrated"
    assert judge(CALIBRATED, "probability", 10.0).degree.tolist() == [0.5, 0.5]  # d from 0 on
    assert judge(CALIBRATED, "probability", 17.0).degree.tolist() == [0.46, 0.49]  # from 4, or 1, on
    assert judge(CALIBRATED, "cvar", 0.0, 0.9).degree[0] == pytest.approx(10 - 2 * 44.55, abs=0.01)  # 9.9 episodes


def test_bound_and_probability_agree() -> None:
    bound = judge(CALIBRATED, "lcb", 0.0, 0.9).degree
    for action, at in enumerate(bound):
        assert judge(CALIBRATED, "probability", float(at), 0.9).degree[action] == pytest.approx(0.9)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(SettingError, match="Unknown criterion 'lcbb'; did you mean lcb"):
        judge(PLAIN, "lcbb", 0.0)
    with pytest.raises(SettingError, match="level must lie between 0 and 1, not 90"):
        judge(PLAIN, "lcb", 0.0, 90)
    with pytest.raises(SettingError, match="threshold must be a finite number"):
        judge(PLAIN, "lcb", float("nan"))
    with pytest.raises(NotCalibrated, match=r"learner\.calibrate\(\)"):
        judge(PLAIN, "lcb", 0.0, 0.9, "calibrated")
    with pytest.raises(SettingError, match="spread must be calibrated, epistemic or predictive, not 'wide'"):
        judge(PLAIN, "lcb", 0.0, 0.9, "wide")  # type: ignore[arg-type]
    with pytest.raises(NotCalibrated, match="at least 999 episodes"):
        judge(CALIBRATED, "lcb", 0.0, 0.999)
