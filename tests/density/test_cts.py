"""Context tree switching against a naive tree for each pixel, and against the laws of probability."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bdqn.config.observations import ObservationSpec
from bdqn.density.cts import ContextTrees, PictureTrees
from bdqn.density.numbers import grey_picture
from bdqn.density.pseudo_counts import pseudo_count


class Node:
    """One context, written as in Veness et al. (2012): with dictionaries, one symbol at a time."""

    def __init__(self, levels: int) -> None:
        self.levels, self.children, self.stay = levels, {}, 0.5
        self.counts = dict.fromkeys(range(levels), 1 / levels)

    def child(self, symbol: int) -> Node:
        return self.children.setdefault(symbol, Node(self.levels))

    def own(self, symbol: int) -> float:
        return float(self.counts[symbol] / sum(self.counts.values()))

    def prob(self, context: list[int], symbol: int) -> float:
        if not context:
            return self.own(symbol)
        below = self.child(context[0]).prob(context[1:], symbol)
        return self.stay * self.own(symbol) + (1 - self.stay) * below

    def update(self, context: list[int], symbol: int, switch: float) -> None:
        if context:
            stay = self.stay * self.own(symbol)
            leave = (1 - self.stay) * self.child(context[0]).prob(context[1:], symbol)
            stay, leave = stay / (stay + leave), leave / (stay + leave)
            self.stay = (1 - switch) * stay + switch * leave
            self.child(context[0]).update(context[1:], symbol, switch)
        self.counts[symbol] += 1


class NaiveTrees:
    def __init__(self, shape: tuple[int, int], levels: int) -> None:
        self.roots = {place: Node(levels) for place in np.ndindex(shape)}
        self.time = 0

    def context(self, picture: np.ndarray, row: int, column: int) -> list[int]:
        """Left, above, above left, above right; black beyond the border."""
        padded = np.pad(picture, 1)
        r, c = row + 1, column + 1
        return [int(padded[r, c - 1]), int(padded[r - 1, c]), int(padded[r - 1, c - 1]), int(padded[r - 1, c + 1])]

    def log_prob(self, picture: np.ndarray) -> float:
        return float(
            sum(
                np.log(root.prob(self.context(picture, *place), int(picture[place])))
                for place, root in self.roots.items()
            )
        )

    def update(self, picture: np.ndarray) -> None:
        self.time += 1
        for place, root in self.roots.items():
            root.update(self.context(picture, *place), int(picture[place]), 1 / (self.time + 1))


def pictures(shape: tuple[int, int], levels: int, count: int) -> list[np.ndarray]:
    """Some that recur, some that do not."""
    rng = np.random.default_rng(3)
    few = rng.integers(levels, size=(4, *shape)).astype(np.uint8)
    return [few[rng.integers(4)] if rng.random() < 0.7 else rng.integers(levels, size=shape).astype(np.uint8)
            for _ in range(count)]  # fmt: skip


@pytest.mark.parametrize(("shape", "levels"), [((1, 3), 3), ((2, 2), 2), ((3, 4), 8)])
def test_they_predict_as_naive_trees_do(shape: tuple[int, int], levels: int) -> None:
    trees, naive = ContextTrees(shape, levels), NaiveTrees(shape, levels)
    for picture in pictures(shape, levels, 60):
        before, after = trees.prob_then_update(picture)
        assert before == pytest.approx(naive.log_prob(picture), rel=1e-9)
        naive.update(picture)
        assert after == pytest.approx(naive.log_prob(picture), rel=1e-9)


@pytest.mark.parametrize(("shape", "levels"), [((2, 2), 3), ((1, 3), 4), ((3, 2), 2)])
@pytest.mark.parametrize("seen", [0, 1, 30])
def test_probabilities_of_all_pictures_sum_to_one(shape: tuple[int, int], levels: int, seen: int) -> None:
    trees = ContextTrees(shape, levels)
    for picture in pictures(shape, levels, seen):
        trees.prob_then_update(picture)
    total = 0.0
    for values in product(range(levels), repeat=shape[0] * shape[1]):
        twin = ContextTrees(shape, levels)
        twin.load_state(trees.state())
        total += np.exp(twin.prob_then_update(np.array(values, np.uint8).reshape(shape))[0])
    assert total == pytest.approx(1, rel=1e-12)


def test_a_picture_that_recurs_is_counted_about_as_often() -> None:
    rng = np.random.default_rng(0)
    trees, screen = ContextTrees((42, 42)), rng.integers(8, size=(42, 42)).astype(np.uint8)
    counts = [pseudo_count(*trees.prob_then_update(screen)) for _ in range(200)]
    assert counts[0] == pytest.approx(0, abs=1e-6)
    assert np.all(np.diff(counts) > 0)
    assert 20 < counts[-1] < 2000
    other = screen.copy()
    other[20:24, 20:24] = rng.integers(8, size=(4, 4))
    assert pseudo_count(*trees.prob_then_update(other)) < 1  # a part of it is new


def test_trees_go_on_from_their_state() -> None:
    trees, twin = ContextTrees((3, 4)), ContextTrees((3, 4))
    seen = pictures((3, 4), 8, 80)
    for picture in seen[:40]:
        trees.prob_then_update(picture)
    twin.load_state(trees.state())
    assert twin.size == trees.size > 12
    for picture in seen[40:]:
        assert twin.prob_then_update(picture) == trees.prob_then_update(picture)
    for name, array in trees.state().items():
        np.testing.assert_array_equal(twin.state()[name], array)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("totals", np.full(12, -1, np.int32)),
        ("children", np.full(96, 12, np.int32)),
        ("counts", np.zeros(95, np.int32)),
        ("stays", np.zeros(12, np.float32)),
        ("stays", np.full(12, np.nan)),
        ("stays", np.full(12, 1.5)),
    ],
)
def test_a_state_that_cannot_be_of_these_trees_is_refused(name: str, value: np.ndarray) -> None:
    trees = ContextTrees((3, 4))
    with pytest.raises(ValueError, match="context trees"):
        trees.load_state({**trees.state(), name: value})


def test_a_screen_becomes_its_blocks_means_in_eight_levels() -> None:
    spec = ObservationSpec((4, 84, 84), np.dtype(np.uint8), stack=4)
    stack = np.zeros(spec.shape, np.uint8)
    stack[:3] = 255  # older frames do not count
    stack[3, :2, :2] = [[255, 255], [255, 251]]
    stack[3, 82:, 82:] = [[128, 128], [0, 0]]
    picture = grey_picture(spec, 42, 8)(stack)
    assert picture.shape == (42, 42)
    assert (picture[0, 0], picture[-1, -1], picture[20, 20]) == (7, 2, 0)


@pytest.mark.parametrize(
    ("shape", "sides"), [((10, 10, 4), (10, 10)), ((210, 160, 3), (42, 40)), ((50, 85, 3), (25, 29)), ((7,), (1, 7))]
)
def test_sides_of_pictures(shape: tuple[int, ...], sides: tuple[int, int]) -> None:
    spec = ObservationSpec(shape, np.dtype(np.uint8))
    picture = grey_picture(spec, 42, 8)(np.full(shape, 255, np.uint8))
    assert picture.shape == sides
    assert (picture == 7).all()


def test_channels_have_shades_of_their_own() -> None:
    spec = ObservationSpec((10, 10, 4), np.dtype(np.bool_))
    planes = np.zeros(spec.shape, np.bool_)
    planes[0, 0, 0] = planes[0, 1, 3] = planes[0, 2, 1] = True
    assert grey_picture(spec, 42, 8)(planes)[0, :4].tolist() == [2, 7, 4, 0]


def test_observations_that_are_no_images_are_rows() -> None:
    model = PictureTrees(ObservationSpec((), np.dtype(np.int64), categories=6, first_category=2))
    counts = [pseudo_count(*model.prob_then_update(np.array(value))) for value in (3, 3, 3, 7, 3)]
    assert counts[0] < counts[1] < counts[2]
    assert counts[3] < counts[4]
