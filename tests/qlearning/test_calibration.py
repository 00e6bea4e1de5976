"""Calibrated intervals hold what they promise, and are refused where they cannot."""

from __future__ import annotations

import numpy as np
import pytest

from bdqn.qlearning.calibration import (
    LEVEL,
    MOST,
    Calibration,
    Coverage,
    NotCalibrated,
    Outcomes,
    episodes_needed,
)

ONE = np.ones(1)


def outcomes(*episodes: list[float], spread: float = 1.0) -> Outcomes:
    """Episodes with these returns, where Q was 0."""
    episode = np.repeat(np.arange(len(episodes)), [len(own) for own in episodes])
    nothing = np.zeros(len(episode))
    return Outcomes(
        len(episodes), episode, nothing, nothing + spread / 2, nothing + spread, np.concatenate(episodes).astype(float)
    )


def ranks(count: int, *others: list[float]) -> Calibration:
    """Distances 1, 2, ..., one for each episode."""
    return Calibration.of(outcomes(*([float(i)] for i in range(1, count + 1)), *others), 0)


@pytest.mark.parametrize(("level", "needed"), [(0.5, 3), (0.9, 19), (0.95, 39), (0.99, 199)])
def test_an_interval_needs_so_many_episodes(level: float, needed: int) -> None:
    """With n episodes the new one is equally likely at each of n + 1 ranks, so the ends miss 2 / (n + 1) of them."""
    assert episodes_needed(level) == needed
    enough = Calibration(0, tuple(np.array([float(i)]) for i in range(1, needed + 1)))
    assert enough.interval(0 * ONE, ONE, level) == (1.0, needed)
    fewer = Calibration(0, enough.distances[1:])
    with pytest.raises(NotCalibrated, match=rf"at least {needed} episodes .* this one has {needed - 1}\."):
        fewer.interval(0 * ONE, ONE, level)


def test_an_interval_lies_between_ranks_in_spreads_around_q() -> None:
    low, high = ranks(39).interval(np.array([10.0, 20.0]), np.array([1.0, 3.0]), 0.9)  # ranks 2 and 38 of 40
    assert low.tolist() == [12.0, 26.0]
    assert high.tolist() == [48.0, 134.0]


def test_distances_are_counted_in_predictive_stds() -> None:
    made = Calibration.of(outcomes(*([float(i)] for i in range(1, 40)), spread=2.0), 0)
    assert made.interval(0 * ONE, ONE, 0.9) == (1.0, 19.0)


def test_a_long_episode_counts_once() -> None:
    """A thousand decisions of one episode are no thousand trials: as many returns of other episodes lie elsewhere."""
    low, high = ranks(198, [1000.0] * 5000).interval(0 * ONE, ONE, 0.9)
    assert (low, high) == (10.0, 190.0)
    assert len(ranks(18, list(range(5000))).distances[-1]) == MOST


def test_episodes_without_known_returns_may_lie_on_either_side() -> None:
    """They might have been the best ones or the worst: leaving them out would be calibrating on survivors."""
    low, high = ranks(95, *([[]] * 4)).interval(0 * ONE, ONE, 0.9)  # ranks of 100: 5 below, 5 above
    assert (low, high) == (1.0, 95.0)
    with pytest.raises(NotCalibrated, match="this one has 94, and in 5 others a time limit hides every return"):
        ranks(94, *([[]] * 5))


def test_a_calibration_is_refused_where_no_90_percent_interval_can_be_given() -> None:
    with pytest.raises(NotCalibrated, match="at least 19 episodes"):
        ranks(18)


def test_the_calibrated_std_is_half_of_the_interval_of_68_percent() -> None:
    made = ranks(999)  # ranks 158 and 842 of 1000: 0.1587 lie beyond one std
    assert made.std(np.array([1.0, 2.0])).tolist() == [342.0, 684.0]


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_what_they_promise_though_decisions_of_an_episode_agree(level: float) -> None:
    """Episodes of very different lengths whose returns share most of their distance, far from Q, and skewed."""
    rng = np.random.default_rng(0)

    def play(episodes: int) -> Outcomes:
        length = rng.integers(1, 60, episodes)
        episode = np.repeat(np.arange(episodes), length)
        common = rng.exponential(3.0, episodes) * np.where(length > 30, 1, -1)  # long ones end well
        spread = rng.uniform(0.5, 2.0, len(episode))
        outcome = 5.0 + spread * (common[episode] + 0.1 * rng.normal(size=len(episode)))
        return Outcomes(episodes, episode, np.zeros(len(episode)), spread / 9, spread, outcome)

    found = [play(30).calibrated_coverage(Calibration.of(play(60), 0), level).held for _ in range(300)]
    assert level - 0.01 < np.mean(found) < level + 0.035  # at most 2 / 61 too much, and chance
    assert play(300).coverage(level).verdict == "overconfident"


def test_coverage_counts_episodes_and_not_decisions() -> None:
    found = outcomes([0.0] * 9, [9.0]).coverage()
    assert (found.held, found.episodes) == (0.5, 2)


def test_a_calibration_is_shown_in_a_line() -> None:
    """A notebook shows what `q_posterior` answers: not thousands of distances."""
    shown = repr(ranks(39, []))
    assert shown == "<Calibration: 39 of 40 episodes have known returns, 0 decisions>"


def test_verdicts_allow_for_chance() -> None:
    assert str(Coverage(0.9, 0.31, 20)) == "90 % intervals hold 31 % of returns: overconfident"
    assert Coverage(0.9, 0.8, 20).verdict == "right, as far as 20 episodes tell"
    assert Coverage(0.9, 0.8, 200).verdict == "overconfident"
    assert Coverage(0.9, 0.97, 200).verdict == "underconfident"
    assert Coverage(0.9, 0.5, 1).verdict == "1 episode, too few to tell"
    assert "no return is known" in str(outcomes([], []).coverage())


@pytest.mark.parametrize("level", [0.0, 1.0, 90])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(ValueError, match=rf"between 0 and 1, not {level}"):
        ranks(19).interval(0 * ONE, ONE, level)
    assert LEVEL == 0.9
