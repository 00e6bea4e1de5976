"""Structured observations as records: all parts of a Dict or a Tuple as one row of bytes.

A row is what the loop, the replay buffer and its files handle; the networks read the parts from it again. So Dict and
Tuple observations need no other code than images do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bdqn.envs.answers import BadAnswer, Expected, kind_of
from bdqn.envs.minigrid import missions, with_bounds
from bdqn.envs.spaces import UnsupportedSpace, name_of

Bytes = NDArray[np.uint8]
Path = tuple[str | int, ...]
STRUCTURED = (spaces.Dict, spaces.Tuple, spaces.MultiDiscrete, spaces.MultiBinary)


class Unrepresentable(Exception):
    """A value holds numbers that the declared type does not have, such as fractions or 300 among bytes."""


class Leaf:
    """One part of an observation: numbers of a Box."""

    counts: tuple[int, ...] = ()  # of categories, for each number; empty: they are numbers

    def __init__(self, path: Path, space: Any) -> None:
        self.path, self.space = path, space
        self.name = "/".join(map(str, path))
        self.shape: tuple[int, ...] = tuple(space.shape or ())
        self.dtype = self._kept(np.dtype(space.dtype))

    def _kept(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Floats as float32, which networks compute in; integers as they are, where torch knows the type."""
        if dtype.kind == "f":
            return np.dtype(np.float32)
        return dtype if dtype.kind in "bi" or dtype == np.uint8 else np.dtype(np.int64)

    def array(self, value: Any) -> NDArray[Any]:
        """A value, or a batch of them, in the stored type; ValueError if it does not fit."""
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or self._rows(array) is None:
            raise ValueError
        with np.errstate(over="ignore", invalid="ignore"):
            kept = array.astype(self.dtype)
        if kept.dtype.kind == "f":
            if not np.isfinite(kept).all():
                raise FloatingPointError
        elif array.dtype != self.dtype and (kept != array).any():
            raise Unrepresentable
        return kept

    def _rows(self, array: NDArray[Any]) -> tuple[int, ...] | None:
        """The shape of the batch; None if the value has another shape than the declared one."""
        batch = array.ndim - len(self.shape)
        return array.shape[:batch] if batch in (0, 1) and array.shape[batch:] == self.shape else None

    @property
    def declares(self) -> str:
        return f"{np.dtype(self.space.dtype)} of shape {self.shape}"


class Categories(Leaf):
    """Categories of a Discrete or a MultiDiscrete, counted from zero."""

    def __init__(self, path: Path, space: Any) -> None:
        super().__init__(path, space)
        most = np.asarray(space.nvec if isinstance(space, spaces.MultiDiscrete) else space.n)
        self.first, self.counts = np.asarray(space.start), tuple(most.ravel().tolist())
        self._most = most
        self.dtype = np.dtype(np.int64)

    def array(self, value: Any) -> NDArray[Any]:
        array = np.asarray(value)
        if array.dtype.kind not in "iu" or self._rows(array) is None:
            raise ValueError
        categories: NDArray[np.int64] = array.astype(np.int64) - self.first
        if ((categories < 0) | (categories >= self._most)).any():
            raise ValueError
        return categories

    @property
    def declares(self) -> str:
        return str(self.space)


class Bits(Leaf):
    """Zeros and ones of a MultiBinary."""

    def _kept(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return np.dtype(np.bool_)


class Missions(Leaf):
    """MiniGrid's missions: texts, of which all are known, as categories."""

    def __init__(self, path: Path, space: Any) -> None:
        self._texts = {text: number for number, text in enumerate(missions(space) or ())}
        self.path, self.space, self.name = path, space, "/".join(map(str, path))
        self.shape, self.dtype, self.counts = (), np.dtype(np.int64), (len(self._texts),)

    def array(self, value: Any) -> NDArray[Any]:
        if isinstance(value, str):
            if value not in self._texts:
                raise ValueError
            return np.asarray(self._texts[value])
        return np.stack([self.array(one) for one in value])

    @property
    def declares(self) -> str:
        return f"one of {len(self._texts)} missions" if len(self._texts) > 1 else "one mission"


LEAVES: dict[type, type[Leaf]] = {
    spaces.Box: Leaf,
    spaces.Discrete: Categories,
    spaces.MultiDiscrete: Categories,
    spaces.MultiBinary: Bits,
}


class RecordSpace(spaces.Box):
    """The bytes of a structured observation, and how to get from one to the other."""

    def __init__(self, space: spaces.Space[Any], name: str) -> None:
        """``name`` is the environment's, for messages."""
        self.structured, self.name = space, name
        self.leaves = tuple(_leaves(space, (), name))
        if not self.leaves:
            raise UnsupportedSpace(f"{name} observes {space}, which has no parts: observe a constant, Discrete(1).")
        # Aligned, so that the networks can read numbers where they stand.
        self.record = np.dtype([(str(i), leaf.dtype, leaf.shape) for i, leaf in enumerate(self.leaves)], align=True)
        super().__init__(0, 255, (self.record.itemsize,), np.uint8)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordSpace) and self.structured == other.structured

    @property
    def boxes(self) -> list[Leaf]:
        """The leaves that are numbers within bounds."""
        return [leaf for leaf in self.leaves if isinstance(leaf.space, spaces.Box)]

    @property
    def starts(self) -> list[int]:
        """The first byte of each leaf."""
        return [self.record.fields[str(i)][1] for i in range(len(self.leaves))]  # type: ignore[index]

    def pack(self, observation: Any) -> Bytes:
        """One observation as bytes."""
        row = np.zeros(1, self.record)
        for i, array in enumerate(self._arrays(observation)):
            if array.shape != self.leaves[i].shape:
                raise BadAnswer(self._misfit(self.leaves[i], array))
            row[str(i)] = array
        return row.view(np.uint8)

    def batch(self, observation: Any) -> tuple[Bytes, bool]:
        """Observations as rows of bytes, and whether it was a single one; leaves of a batch have its axis first."""
        if isinstance(observation, np.ndarray) and observation.dtype == np.uint8:
            single = observation.shape == self.shape
            if single or observation.shape[1:] == self.shape:
                return (observation[None] if single else observation), single
        arrays = list(self._arrays(observation))
        sizes = {array.shape[: array.ndim - len(leaf.shape)] for array, leaf in zip(arrays, self.leaves, strict=True)}
        if len(sizes) > 1:
            raise ValueError(f"The parts of the observations are of batches of different sizes: {sorted(sizes)}.")
        size = sizes.pop()
        rows = np.zeros(size or 1, self.record)
        for i, array in enumerate(arrays):
            rows[str(i)] = array
        return rows.view(np.uint8).reshape(len(rows), -1), not size

    def unpack(self, rows: Bytes) -> dict[str, NDArray[Any]]:
        """The leaves of rows of bytes, by name; categories are counted from zero."""
        records = np.ascontiguousarray(rows).view(self.record)[..., 0]
        return {leaf.name: records[str(i)] for i, leaf in enumerate(self.leaves)}

    def _arrays(self, observation: Any) -> Iterator[NDArray[Any]]:
        for leaf in self.leaves:
            value = self._part(observation, leaf)
            try:
                yield leaf.array(value)
            except FloatingPointError:
                raise BadAnswer(
                    f"{self.name} gave NaN or infinity as {_where(leaf)}: remove them with a wrapper."
                ) from None
            except Unrepresentable:
                raise BadAnswer(
                    f"{self.name} gave numbers as {_where(leaf)} that {leaf.declares} cannot represent: declare their "
                    "type, for example Box(low, high, shape, np.float32)."
                ) from None
            except (TypeError, ValueError):
                raise BadAnswer(self._misfit(leaf, value)) from None

    def _part(self, observation: Any, leaf: Leaf) -> Any:
        value = observation
        try:
            for key in leaf.path:
                value = value[key]
        except (KeyError, IndexError, TypeError):
            raise BadAnswer(
                f"{self.name} gave {kind_of(observation)} as observation, in which {leaf.name!r} is missing, but "
                f"declares it: {leaf.declares}."
            ) from None
        return value

    def _misfit(self, leaf: Leaf, value: Any) -> str:
        return f"{self.name} gave {kind_of(value)} as {_where(leaf)}, but declares {leaf.declares}."


class ExpectedRecord(Expected):
    """What the parts of structured observations declare; their shapes and types are checked whenever they come in."""

    def __init__(self, name: str, space: RecordSpace, said: set[str]) -> None:
        super().__init__(name, space, said)
        self._record = space
        self._parts = [Expected(name, leaf.space, said, leaf.name) for leaf in space.boxes]

    @property
    def parts(self) -> Sequence[Expected]:
        return self._parts

    def arrays(self, observation: Any) -> Sequence[Any]:
        leaves = self._record.unpack(observation)
        return [leaves[part.part] for part in self._parts]

    def look(self, observation: Any) -> None:
        for part, array in zip(self._parts, self.arrays(observation), strict=True):
            part.look_at_bounds(array)


class RecordObservations(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose structured observations are records. What is no answer at all is passed on as it is."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = self._record = RecordSpace(env.observation_space, name_of(env))

    def reset(self, **given: Any) -> Any:
        return self._packed(self.env.reset(**given))

    def step(self, action: Any) -> Any:
        return self._packed(self.env.step(action))

    def _packed(self, answer: Any) -> Any:
        return (self._record.pack(answer[0]), *answer[1:]) if isinstance(answer, tuple) and answer else answer


def _where(leaf: Leaf) -> str:
    return f"the observation's {leaf.name!r}" if leaf.path else "observation"


def _leaves(space: Any, path: Path, name: str) -> Iterator[Leaf]:
    """The parts of a space, in order."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = with_bounds(space.spaces).items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            yield from _leaves(part, (*path, key), name)
    elif missions(space):
        yield Missions(path, space)
    else:
        found = next((leaf for kind, leaf in LEAVES.items() if isinstance(space, kind)), None)
        if found is None or 0 in (space.shape or ()):
            key = "/".join(map(str, path)) or "observation"
            is_text = space.dtype is not None and space.dtype.kind == "U"  # its own words may be those of a function
            kind = f"{type(space).__name__}, which is text" if is_text else space
            raise UnsupportedSpace(
                f"{name} observes {key!r}, of space {kind}, but bdqn needs parts that are Box, Discrete, "
                "MultiDiscrete or MultiBinary: leave it out with gymnasium.wrappers.FilterObservation, or turn it into "
                "numbers with gymnasium.wrappers.TransformObservation."
            )
        yield found(path, space)
