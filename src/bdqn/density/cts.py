"""CTS: context tree switching over the pixels of grey pictures, all of them at once.

Veness et al., "Context tree switching" (2012); as a model of images, Bellemare et al., "Skip context tree switching"
(2014), and as a source of pseudo-counts, Bellemare et al. (2016). A picture's probability is the product of those of
its pixels, each given the pixels to its left and above. Every place has a model of its own: a tree in which a pixel
follows the levels of its neighbours, the most telling one first. Each node on that path predicts the pixel by what it
has seen there, and mixes that with the prediction of the node below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.config.observations import ObservationSpec
from bdqn.density.numbers import Levels, grey_picture
from bdqn.density.pseudo_counts import DensityModel, LogProbs

SIDE, LEVELS = 42, 8  # of pictures, as in Bellemare et al. (2016)
NEIGHBOURS = ((0, -1), (-1, 0), (-1, -1), (-1, 1))  # left, above, above left, above right: rows and columns from here
DEPTH = len(NEIGHBOURS)

Nodes = NDArray[np.int64]
Probabilities = NDArray[np.float64]


class ContextTrees:
    """A tree of contexts for each pixel; the nodes of all trees stand in the same arrays.

    The first nodes are the roots, in the order of pixels. Others are made when their context is first seen.
    """

    def __init__(self, shape: tuple[int, int], levels: int = LEVELS) -> None:
        self._shape, self._levels = shape, levels
        self._roots = np.arange(shape[0] * shape[1])
        self._padded = np.zeros((shape[0] + 1, shape[1] + 2), np.uint8)  # beyond the border everything is black
        self._clear()

    def _clear(self) -> None:
        self._frames, self._nodes = 0, len(self._roots)
        self._stays = np.zeros(0)  # how probably a node predicts better than those below it
        self._totals = np.zeros(0, np.int32)  # how often a node was met
        self._counts = np.zeros(0, np.int32)  # how often each level was seen there (nodes x levels)
        self._children = np.zeros(0, np.int32)  # by the next neighbour's level (nodes x levels); 0: none yet
        self._make_room()

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return self._nodes

    def prob_then_update(self, picture: Levels) -> LogProbs:
        """Learn a picture; the logarithms of its probability before and after."""
        path = self._path(picture)  # (depth + 1, pixels), as all that follows
        entries = path * self._levels + picture.ravel()
        seen, total, stays = self._counts.take(entries), self._totals.take(path), self._stays.take(path[:-1])
        own = self._estimates(seen, total)
        mixed = _mixed(own, stays)
        before = np.log(mixed[0]).sum()

        self._frames += 1
        switch = 1 / (self._frames + 1)  # how probably another node predicts better from now on
        stays = stays * own[:-1] / mixed[:-1]
        stays += switch * (1 - 2 * stays)
        seen, total = seen + 1, total + 1
        # No node is on two paths, so that nothing is written twice.
        self._counts[entries], self._totals[path], self._stays[path[:-1]] = seen, total, stays
        after = np.log(_mixed(self._estimates(seen, total), stays)[0]).sum()
        return float(before), float(after)

    def _path(self, picture: Levels) -> Nodes:
        """The nodes that each pixel's neighbours lead to, from its root down."""
        height, width = self._shape
        self._padded[1:, 1:-1] = picture
        path = [self._roots]
        for row, column in NEIGHBOURS:
            neighbour = self._padded[1 + row : 1 + row + height, 1 + column : 1 + column + width].ravel()
            entries = path[-1] * self._levels + neighbour
            children = self._children.take(entries)
            if not children.all():
                new = np.flatnonzero(children == 0)
                children[new] = np.arange(self._nodes, self._nodes + len(new))
                self._nodes += len(new)
                self._make_room()
                self._children[entries[new]] = children[new]
            path.append(children.astype(np.int64))
        return np.stack(path)

    def _estimates(self, seen: NDArray[np.int32], total: NDArray[np.int32]) -> Probabilities:
        """What each node gives a level that it has seen so often: one count is shared by all levels (Perks' prior)."""
        estimates: Probabilities = (seen + 1 / self._levels) / (total + 1)
        return estimates

    def _make_room(self) -> None:
        """Arrays twice as long, or more, where there are more nodes than fit."""
        had, room = len(self._totals), len(self._totals) or len(self._roots)
        while room < self._nodes:
            room *= 2
        if room > had:
            self._stays = np.append(self._stays, np.full(room - had, 0.5))
            self._totals, self._counts, self._children = (
                np.append(array, np.zeros((room - had) * per_node, np.int32))
                for array, per_node in ((self._totals, 1), (self._counts, self._levels), (self._children, self._levels))
            )

    def state(self) -> dict[str, NDArray[Any]]:
        """The nodes, and how many pictures there were."""
        nodes, entries = slice(self._nodes), slice(self._nodes * self._levels)
        return {
            "frames": np.array(self._frames),
            "stays": self._stays[nodes],
            "totals": self._totals[nodes],
            "counts": self._counts[entries],
            "children": self._children[entries],
        }

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what ``state`` gave."""
        self._clear()
        nodes, own = len(state["totals"]), self.state()
        per_node = {"frames": 0, "stays": 1, "totals": 1, "counts": self._levels, "children": self._levels}
        largest = {"stays": 1, "children": nodes - 1}
        for name, array in state.items():
            shape = (nodes * per_node[name],) if per_node[name] else ()
            within = (array >= 0).all() and (array <= largest.get(name, np.inf)).all()  # a NaN is not
            if array.dtype != own[name].dtype or array.shape != shape or not within:
                raise ValueError(f"{name} of the context trees ({array.dtype} {array.shape}) is of other trees.")
        if nodes < self._nodes:
            raise ValueError(f"the context trees have {nodes} nodes, but there are {self._nodes} pixels.")
        self._frames, self._nodes = int(state["frames"]), nodes
        self._make_room()
        for name, array in self.state().items():
            if name != "frames":
                array[:] = state[name]  # a view of its own array


def _mixed(own: Probabilities, stays: Probabilities) -> Probabilities:
    """The prediction of every node on a path: its own, and that of the node below, as probable as they are."""
    mixed = own.copy()
    for depth in range(len(stays) - 1, -1, -1):
        mixed[depth] = mixed[depth + 1] + stays[depth] * (own[depth] - mixed[depth + 1])
    return mixed


class PictureTrees:
    """Context trees for observations: images as grey pictures of 42 x 42 pixels or fewer, others as a row of pixels."""

    def __init__(self, spec: ObservationSpec) -> None:
        self._picture = grey_picture(spec, SIDE, LEVELS)
        some = self._picture(np.full(spec.shape, spec.first_category, spec.dtype))
        self._trees = ContextTrees((some.shape[0], some.shape[1]))
        self.state, self.load_state = self._trees.state, self._trees.load_state

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return self._trees.size

    def prob_then_update(self, obs: NDArray[Any]) -> LogProbs:
        """Learn an observation; the logarithms of its probability before and after."""
        return self._trees.prob_then_update(self._picture(obs))


def context_trees(spec: ObservationSpec, rng: np.random.Generator) -> DensityModel:
    """CTS over observations of this kind; nothing in it is random."""
    return PictureTrees(spec)
