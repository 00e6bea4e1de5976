"""Which kind of draw acts: bold while nothing tells the two apart, then the better one."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from bdqn.qlearning.boldness import BOLD, MODEST, Bold, Boldness
from bdqn.replay.duplicates import Recurrence


def make(decay: float = 1 / 3, gamma: float = 0.9, num_envs: int = 1, while_new: bool = True) -> Boldness:
    choice = Bold(decay, decay_unlike=1.0, leaves_loops=False, while_new=while_new)
    boldness = Boldness(choice, gamma, num_envs, np.random.default_rng(0))
    boldness.recurrence = Recurrence(distinct=0.1)
    return boldness


def play(boldness: Boldness, returns: tuple[float, float], segments: int) -> list[int]:
    """Episodes of one decision each, which return as much as their kind does."""
    kinds = []
    for _ in range(segments):
        kinds.append(int(boldness.kinds[0]))
        assert boldness.add(np.array([returns[kinds[-1]]]), np.array([True])).all()
    return kinds


def test_bold_while_it_makes_no_difference() -> None:
    kinds = play(make(), (0.0, 0.0), 50)
    assert kinds.count(MODEST) == 1  # tried once, to know


@pytest.mark.parametrize(("returns", "better"), [((1.0, 0.2), MODEST), ((0.1, 0.3), BOLD), ((-0.5, -0.9), MODEST)])
def test_the_better_kind_acts_and_the_other_ever_less(returns: tuple[float, float], better: int) -> None:
    kinds = np.array(play(make(while_new=False), returns, 3000))
    first, last = (kinds[:300] != better).mean(), (kinds[-1000:] != better).mean()
    assert 0.05 < last < 0.1 < first < 0.4


def test_a_long_episode_has_several_segments() -> None:
    boldness = make(gamma=0.5)
    ends = [bool(boldness.add(np.zeros(1), np.array([False]))[0]) for _ in range(40)]
    assert ends == ([False] * 19 + [True]) * 2  # ten horizons of two decisions


def test_the_exponent_zero_is_always_bold() -> None:
    assert set(play(make(0.0), (1.0, 0.0), 20)) == {BOLD}


@pytest.mark.parametrize(("recur", "least", "most"), [(True, 150, 400), (False, 3, 20)])
def test_bold_draws_fade_sooner_where_observations_hardly_recur(recur: bool, least: int, most: int) -> None:
    boldness = make()
    boldness.recurrence = Recurrence(distinct=0.1 if recur else 0.9)
    assert least < play(boldness, (1.0, 0.2), 1500).count(BOLD) < most


def share_of_bold(boldness: Boldness, returns: tuple[float, float], new_kinds: int) -> float:
    """The share of bold segments, in 600 episodes with a fit after every third; the first 300 do not count."""
    kinds: list[int] = []
    for fit in range(200):
        kinds += play(boldness, returns, 3)
        boldness.fitted(Recurrence(kinds=fit * new_kinds, distinct=0.1))
    return kinds[300:].count(BOLD) / 300


def test_while_nothing_is_gained_and_news_come_in_bold_draws_act_in_half_of_the_segments() -> None:
    only_costs = (0.0, -0.1)
    assert 0.4 < share_of_bold(make(), only_costs, new_kinds=2) < 0.6
    assert share_of_bold(make(), only_costs, new_kinds=0) < 0.25
    assert share_of_bold(make(while_new=False), only_costs, new_kinds=2) < 0.25
    assert share_of_bold(make(), (0.1, -0.1), new_kinds=2) < 0.25  # a reward is worth keeping


def test_news_are_over_when_five_bold_decisions_for_each_kind_met_none() -> None:
    boldness = make()
    for kind, expected in [(MODEST, True), (BOLD, False)]:
        boldness.fitted(Recurrence(kinds=boldness.recurrence.kinds + 5, distinct=0.1))
        for _ in range(60):
            boldness.kinds[:] = kind  # what modest draws do not find proves nothing
            boldness.add(np.array([0.0]), np.array([True]))
        assert boldness._meets_news == expected


def bold_decisions(new_kinds: int) -> int:
    """Of 3,000: modest segments pay after two decisions, bold ones after a hundred."""
    boldness = make(gamma=0.9)
    bold = steps = 0
    for i in range(3000):
        kind = int(boldness.kinds[0])
        bold += kind == BOLD
        steps += 1
        over = steps >= (2 if kind == MODEST else 100)
        if boldness.add(np.array([1.0 if over and kind == MODEST else 0.0]), np.array([over])).all():
            steps = 0
        if i % 50 == 0:
            boldness.fitted(Recurrence(kinds=i * new_kinds, distinct=0.1))
    return bold


def test_bold_segments_without_news_cost_as_many_decisions_as_modest_ones_would() -> None:
    assert bold_decisions(new_kinds=0) < 900 < 1800 < bold_decisions(new_kinds=1)


def test_modest_draws_that_lose_are_tried_as_often_everywhere() -> None:
    recurring, unlike = make(), make()
    unlike.recurrence = Recurrence(distinct=0.9)
    assert play(recurring, (0.1, 0.3), 300) == play(unlike, (0.1, 0.3), 300)


def test_environments_have_kinds_of_their_own_and_one_record() -> None:
    boldness = make(num_envs=3)
    for _ in range(300):
        reward = np.where(boldness.kinds == BOLD, 0.0, 1.0)
        boldness.add(reward, np.array([True, True, False]))
    assert boldness.records[MODEST] >= 1.0  # the third one's segments are long
    assert boldness.records[BOLD] == 0.0
    assert boldness.metrics()["explore/modest_return"] > boldness.metrics()["explore/bold_return"]


def test_a_restored_one_continues_exactly() -> None:
    whole, cut = make(num_envs=2), make(num_envs=2)
    rewards = np.random.default_rng(1).random((200, 2))
    ended = np.random.default_rng(2).random((200, 2)) < 0.2
    restored = make(num_envs=2)
    whole.recurrence = cut.recurrence = Recurrence(kinds=7, distinct=0.2, chance=0.3)
    for i in range(200):
        whole.add(rewards[i], ended[i])
        (cut if i < 100 else restored).add(rewards[i], ended[i])
        if i == 99:
            restored.load_state(cut.state())
            restored._rng.bit_generator.state = cut._rng.bit_generator.state
    assert np.array_equal(whole.kinds, restored.kinds)
    assert np.array_equal(whole.records, restored.records)


def test_one_apart_begins_with_the_records_and_changes_nothing() -> None:
    boldness = make()
    play(boldness, (1.0, 0.2), 500)
    before = deepcopy(boldness.state())
    apart = boldness.apart(3, np.random.default_rng(1))
    np.testing.assert_array_equal(apart.records, boldness.records)
    for _ in range(200):
        apart.add(np.ones(3), np.array([True, False, True]))
    np.testing.assert_equal(boldness.state(), before)
    assert not np.array_equal(apart.records, boldness.records)
