"""Pseudo-counts against what they stand for: visit counts."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdqn.config.observations import ObservationSpec
from bdqn.density.counts import CountTable, exact_counts, fitting_counts, hashed_counts
from bdqn.density.numbers import unit_numbers
from bdqn.density.pseudo_counts import DensityModel, exploration_bonus, pseudo_count

CATEGORIES = ObservationSpec((), np.dtype(np.int64), categories=5, first_category=3)
BOX = ObservationSpec((2,), np.dtype(np.float32), low=np.zeros(2, np.float32), high=np.ones(2, np.float32))
FRAMES = ObservationSpec((4, 84, 84), np.dtype(np.uint8), stack=4)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def counted(model: DensityModel, sequence: list[np.ndarray]) -> list[float]:
    return [pseudo_count(*model.prob_then_update(np.asarray(obs))) for obs in sequence]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(3, 7), max_size=80))
def test_the_pseudo_count_of_exact_counts_is_the_visit_count(visits: list[int]) -> None:
    """For every sequence: the first observation of all, and one that is the only one of its kind, are no exception."""
    seen: Counter[int] = Counter()
    found = counted(exact_counts(CATEGORIES, rng()), [np.array(visit) for visit in visits])
    for visit, count in zip(visits, found, strict=True):
        assert count == pytest.approx(seen[visit], rel=1e-9)
        seen[visit] += 1


@pytest.mark.parametrize("others", [0, 3, 10_000_000])
def test_it_is_the_visit_count_to_six_digits_after_a_million_visits(others: int) -> None:
    table = CountTable(lambda obs: obs.tobytes(), 8)
    keys = np.arange(2)[:, None].view(np.uint8) if others else np.zeros((1, 8), np.uint8)
    table.load_state({"keys": keys, "counts": np.array([1_000_000, others][: len(keys)])})
    assert counted(table, [np.array(0)]) == pytest.approx([1_000_000], rel=1e-6)


def test_shares_are_those_of_counts_with_one_more_for_what_was_never_seen() -> None:
    table = exact_counts(CATEGORIES, rng())
    before, after = zip(*(table.prob_then_update(np.array(visit)) for visit in (3, 3, 4, 3)), strict=True)
    np.testing.assert_allclose(np.exp(before), [0, 1 / 2, 0, 2 / 4])
    np.testing.assert_allclose(np.exp(after), [1 / 2, 2 / 3, 1 / 4, 3 / 5])


def test_the_formula_of_pseudo_counts_and_its_ends() -> None:
    rho, after = 0.02, 0.03
    assert pseudo_count(math.log(rho), math.log(after)) == pytest.approx(rho * (1 - after) / (after - rho))
    assert pseudo_count(-math.inf, math.log(0.5)) == 0  # it had no probability: never seen
    assert pseudo_count(-2.0, -2.0) == math.inf  # nothing was learned from it
    assert pseudo_count(-2.0, -2.5) == math.inf
    assert pseudo_count(-5000.0, -4999.0) == pytest.approx(1 / math.expm1(1))  # rho itself would be zero
    assert pseudo_count(-5000.0, -1.0) == 0


def test_bonuses() -> None:
    assert exploration_bonus(0) == pytest.approx(10)
    assert exploration_bonus(3.99) == pytest.approx(0.5)
    assert exploration_bonus(math.inf) == 0


def test_of_a_stack_only_the_newest_frame_counts() -> None:
    table = exact_counts(FRAMES, rng())
    stacks = np.random.default_rng(1).integers(256, size=(3, *FRAMES.shape)).astype(np.uint8)
    stacks[1, -1] = stacks[0, -1]
    assert counted(table, list(stacks)) == pytest.approx([0, 1, 0])


def test_a_hash_joins_what_is_alike_and_parts_what_is_not() -> None:
    obs = [np.array(pair, np.float32) for pair in ((0.2, 0.2), (0.2001, 0.2), (0.9, 0.1), (0.2, 0.2))]
    assert counted(hashed_counts(BOX, rng(), 64), obs) == pytest.approx([0, 1, 0, 2])
    assert counted(exact_counts(BOX, rng()), obs) == pytest.approx([0, 0, 0, 1])


def test_more_hyperplanes_make_smaller_cells() -> None:
    obs = list(rng().random((500, 2)).astype(np.float32))
    sizes = []
    for bits in (1, 8, 64, 512):
        model = hashed_counts(BOX, rng(), bits)
        counted(model, obs)
        sizes.append(model.size)
    assert sizes == sorted(sizes)
    assert sizes[0] <= 2
    assert sizes[-1] > 250


def test_a_hash_tells_every_cell_of_a_grid_with_one_mark_apart() -> None:
    spec = ObservationSpec((20, 20), np.dtype(np.float32), low=np.zeros((20, 20)), high=np.ones((20, 20)))
    grids = [*np.eye(400, dtype=np.float32).reshape(400, 20, 20), np.zeros((20, 20), np.float32)]
    assert counted(hashed_counts(spec, rng(), 64), grids) == [0] * 401


@pytest.mark.parametrize(
    ("spec", "exact"),
    [
        (CATEGORIES, True),
        (BOX, False),
        (FRAMES, False),
        (ObservationSpec((9,), np.dtype(np.int8)), True),
        (ObservationSpec((10, 10, 4), np.dtype(np.bool_)), False),
        (ObservationSpec((8,), np.dtype(np.uint8), leaves=(("", ObservationSpec((), np.dtype(np.int64), counts=(3,), start=0)),)), True),  # noqa: E501
    ],
)  # fmt: skip
def test_what_recurs_is_counted_exactly(spec: ObservationSpec, exact: bool) -> None:
    model = fitting_counts(spec, rng(), 8)
    model.prob_then_update(np.zeros(spec.shape, spec.dtype) + spec.dtype.type(spec.first_category))
    assert model.state()["keys"].shape == (1, 16 if exact else 1)


@pytest.mark.parametrize("make", [exact_counts, lambda spec, rng: hashed_counts(spec, rng, 20)])
def test_counts_go_on_from_their_state(make: type) -> None:
    model, twin = make(BOX, rng()), make(BOX, rng())
    obs = [np.round(pair, 1).astype(np.float32) for pair in rng().random((100, 2))]
    counted(model, obs)
    twin.load_state(model.state())
    assert twin.size == model.size
    assert counted(twin, obs[::-1]) == counted(model, obs[::-1])


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys": np.zeros((1, 15), np.uint8), "counts": np.ones(1, np.int64)},
        {"keys": np.zeros((2, 16), np.uint8), "counts": np.ones(1, np.int64)},
        {"keys": np.zeros((1, 16), np.uint8), "counts": np.zeros(1, np.int64)},
        {"keys": np.zeros((1, 16), np.uint8), "counts": np.ones(1)},
    ],
)
def test_a_state_that_cannot_be_counts_is_refused(wrong: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="count"):
        exact_counts(BOX, rng()).load_state(wrong)


def test_numbers_are_scaled_by_declared_bounds_and_squashed_without() -> None:
    low, high = np.array([-2, -np.inf, 0], np.float32), np.array([2, np.inf, 10], np.float32)
    numbers = unit_numbers(ObservationSpec((3,), np.dtype(np.float32), low=low, high=high))
    np.testing.assert_allclose(numbers(np.array([1, 3, 10], np.float32)), [0.75, 0.875, 1])
    np.testing.assert_array_equal(unit_numbers(CATEGORIES)(np.array(4)), [0, 1, 0, 0, 0])


def test_a_record_is_read_leaf_by_leaf() -> None:
    leaves = (
        ("color", ObservationSpec((2,), np.dtype(np.int64), counts=(2, 3), start=0)),
        ("place", ObservationSpec((1,), np.dtype(np.float32), low=np.zeros(1), high=np.full(1, 4.0), start=16)),
    )
    record = np.frombuffer(np.array([1, 2]).tobytes() + np.array([3.0], np.float32).tobytes(), np.uint8)
    spec = ObservationSpec((20,), np.dtype(np.uint8), leaves=leaves)
    np.testing.assert_allclose(unit_numbers(spec)(record), [0, 1, 0, 0, 1, 0.75])
