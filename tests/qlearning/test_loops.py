"""Draws that go round in circles."""

from __future__ import annotations

import numpy as np

from bdqn.qlearning.loops import Loops

YES, NO = np.array([True]), np.array([False])


def walk(loops: Loops, *places: float) -> list[bool]:
    """Where one environment stands, decision by decision, and whether it repeats itself there."""
    return [bool(loops.found(np.array([[place]]), YES, NO)[0]) for place in places]


def test_a_draw_that_goes_on_as_before_repeats_itself() -> None:
    assert walk(Loops(1), 1, 2, 3, 1, 2) == [False, False, False, False, True]


def test_a_draw_that_stays_where_it_is_repeats_itself() -> None:
    assert walk(Loops(1), 1, 1, 1) == [False, False, True]


def test_another_draw_starts_anew_where_the_last_one_stood() -> None:
    loops = Loops(1)
    walk(loops, 1, 2, 1)
    loops.forget(np.array([0]))
    assert walk(loops, 2, 1, 2) == [False, False, True]


def test_another_episode_starts_anew() -> None:
    loops = Loops(1)
    walk(loops, 1, 2, 1)
    assert not loops.found(np.array([[2]]), YES, ended=YES).any()  # the first observation of the next one
    assert walk(loops, 1, 2, 1) == [False, False, True]


def test_environments_are_apart_and_those_not_asked_about_are_left_out() -> None:
    loops, ended = Loops(2), np.array([False, False])
    for first, second in ((1, 1), (2, 3), (1, 1)):
        loops.found(np.array([[first], [second]]), np.array([True, False]), ended)
    assert loops.found(np.array([[2], [3]]), np.array([True, True]), ended).tolist() == [True, False]


def test_a_restored_one_goes_on_alike() -> None:
    places = np.random.default_rng(1).integers(4, size=(60, 2, 1))
    whole, cut, restored = Loops(2), Loops(2), Loops(2)
    both, ended = np.array([True, True]), np.array([False, False])
    expected = [whole.found(at, both, ended).tolist() for at in places]
    for at in places[:30]:
        cut.found(at, both, ended)
    restored.load_state(cut.state())
    assert [restored.found(at, both, ended).tolist() for at in places[30:]] == expected[30:]
