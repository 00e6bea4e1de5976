"""Check what environments return against Gymnasium's interface and against their declared spaces.

Unusable values raise ``BadAnswer``. Usable values that differ from the declaration give one warning.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

#: Values are checked closely at the start of an episode and after these decisions. Shapes are always checked.
LOOKS = frozenset(8**k for k in range(16))
ROUNDING = 1e-5  # how far a number may exceed its bounds, relative to its size
RESET = "(observation, info)"
RESET_CALL = "Gymnasium's interface is reset(self, *, seed=None, options=None)"
STEP = "(observation, reward, terminated, truncated, info)"
MANY = 10_000  # actions or categories of observations; networks are slow with more
MANY_ACTIONS = (
    "{} has {:,} actions: every decision computes a value for each of them, and an update does so for every transition "
    "of its minibatch. Training is slow and needs much memory. Offer fewer actions, or use several decisions."
)
MANY_CATEGORIES = (
    "{} has observations of {:,} categories, and each is an input of the network. Training is slow and needs much "
    "memory. Use a Box with the meaning of the number, such as coordinates."
)


class BadAnswer(ValueError):
    """An environment returned a value that Gymnasium's interface does not allow; the message says what is expected."""


class EnvironmentWarning(UserWarning):
    """An environment differs from its declaration, or was restarted."""


class Expected:
    """What the Box of an environment's observations, or of a part of them, declares."""

    def __init__(self, name: str, space: spaces.Space[Any], said: set[str], part: str = "") -> None:
        """``name`` is the environment's; ``said`` has the kinds of warnings already given for such environments."""
        self.name, self.space, self.said, self.part = name, cast(spaces.Box, space), said, part
        self.shape: tuple[int, ...] = tuple(self.space.shape or ())
        self.dtype = np.dtype(self.space.dtype)
        # Networks compute in float32: converting early halves the replay buffer.
        self.kept = np.dtype(np.float32) if self.dtype == np.float64 else self.dtype
        self.declares = self._declares()
        self._anything_goes = self._holds_all_of_its_type()  # as images do, which are large

    @property
    def parts(self) -> Sequence[Expected]:
        """What is declared for each array of numbers in an observation."""
        return [self]

    def arrays(self, observation: Any) -> Sequence[Any]:
        """The arrays of an observation, one for each of ``parts``."""
        return [observation]

    def array(self, observation: Any) -> Any:
        """Convert an observation to an array of the declared shape; raise ValueError if that fails."""
        array = np.asarray(observation)
        if array.shape != self.shape or array.dtype.kind not in "biuf":
            raise ValueError
        return array

    def look(self, observation: Any) -> None:
        """Warn of differences from the declaration."""
        array = np.asarray(observation)
        as_declared = array.dtype == self.dtype
        if as_declared and self._anything_goes:
            return
        if not as_declared and not self.survives(array):
            self.say(
                "kind",
                f"{self.name} declares observations of {self.declares}, but returned {array.dtype} from "
                f"{array.min():g} to {array.max():g}, which {self.kept} cannot represent: the agent sees other "
                "numbers. Declare the actual type, for example Box(low, high, shape, np.float32).",
            )
        else:
            self.look_at_bounds(array)

    def look_at_bounds(self, array: NDArray[Any]) -> None:
        """Warn of numbers beyond the declared bounds."""
        if (place := self.beyond(array, array)) is not None:
            low, high = self.space.low[place], self.space.high[place]
            what = f"{self.part!r} of its observations as" if self.part else "observations of"
            self.say(
                f"range {self.part}",
                f"{self.name} declares {what} {self.declares}, but returned {array[place]:g}{at(place)}, outside "
                f"[{low:g}, {high:g}]. The network scales by the declared bounds: correct them, or declare -inf and "
                "inf to disable scaling.",
            )

    def survives(self, array: NDArray[Any]) -> bool:
        """Whether these numbers keep their values in the stored type, up to rounding."""
        if np.can_cast(array.dtype, self.kept, "same_kind"):
            return True
        with np.errstate(invalid="ignore"):
            return bool((array.astype(self.kept) == array).all())

    def beyond(self, least: NDArray[Any], most: NDArray[Any]) -> tuple[np.intp, ...] | None:
        """An index at which numbers from ``least`` to ``most`` leave the declared bounds; None if there is none."""
        low, high = self.space.low, self.space.high
        if not np.count_nonzero((least < low) | (most > high)):  # faster than any()
            return None
        with np.errstate(invalid="ignore"):
            excess = np.fmax(np.subtract(low, least, dtype=np.float64), np.subtract(most, high, dtype=np.float64))
        outside = np.argwhere(excess > ROUNDING * np.fmax(1, np.fmax(np.abs(least), np.abs(most))))
        return tuple(outside[0]) if len(outside) else None

    def _holds_all_of_its_type(self) -> bool:
        if self.dtype.kind not in "iu":
            return self.dtype.kind == "b"
        limits = np.iinfo(self.dtype.name)
        return bool((self.space.low == limits.min).all() and (self.space.high == limits.max).all())

    def _declares(self) -> str:
        bounds = "" if self.dtype.kind == "b" else f" in [{self.space.low.min():g}, {self.space.high.max():g}]"
        return f"{self.dtype} of shape {self.shape}{bounds}"

    def say(self, kind: str, message: str) -> None:
        """Warn, unless a warning of this kind has been given."""
        if kind not in self.said:
            self.said.add(kind)
            warnings.warn(f"{message} (Shown once.)", EnvironmentWarning, stacklevel=2)

    # --- explanations of unusable values -------------------------------------------------------------------------

    def refused_reset(self, answer: Any, error: Exception) -> BadAnswer:
        """Explain why the value of ``reset`` led to this error."""
        return BadAnswer(f"reset() of {self.name} {self._wrong_reset(answer) or _unforeseen(error)}.")

    def refused_step(self, answer: Any, error: Exception) -> BadAnswer:
        """Explain why the value of ``step`` led to this error."""
        return BadAnswer(f"step() of {self.name} {self._wrong_step(answer) or _unforeseen(error)}.")

    def _wrong_reset(self, answer: Any) -> str:
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            old = "" if self._wrong_observation(answer) else ": this is the interface of Gym before 0.26"
            return f"returned {kind_of(answer)}, but must return the pair {RESET}{old}"
        observation, info = answer
        return self._wrong_observation(observation) or _wrong_info(info)

    def _wrong_step(self, answer: Any) -> str:
        if not isinstance(answer, tuple | list) or len(answer) != 5:
            old = ""
            if isinstance(answer, tuple) and len(answer) == 4:
                old = ": this is the interface of Gym before 0.26, in which done meant both terminated and truncated"
            return f"returned {kind_of(answer)}, but must return the five values {STEP}{old}"
        observation, reward, terminated, truncated, info = answer
        return (
            self._wrong_observation(observation)
            or _wrong_reward(reward)
            or _wrong_flag("terminated", terminated)
            or _wrong_flag("truncated", truncated)
            or _wrong_info(info)
        )

    def _wrong_observation(self, observation: Any) -> str:
        numbers = numbers_of(observation)
        if numbers is None:
            return f"returned {kind_of(observation)} as observation, but declares {self.declares}"
        if numbers.shape != self.shape:
            return f"returned an observation of shape {numbers.shape}, but declares {self.declares}"
        return ""


class ExpectedCategory(Expected):
    """What Discrete observations declare. Every observation is checked, which is cheap."""

    def __init__(self, name: str, space: spaces.Discrete, said: set[str]) -> None:
        self.first, self.last = int(space.start), int(space.start + space.n) - 1
        super().__init__(name, space, said)
        self.shape = (-1,)  # no observation has this shape, so `array` checks every one

    def array(self, observation: Any) -> int:
        category = operator.index(observation)
        if not self.first <= category <= self.last:
            raise ValueError
        return category

    def _holds_all_of_its_type(self) -> bool:
        return True  # `array` has already checked it

    def _declares(self) -> str:
        return f"whole numbers from {self.first} to {self.last}"

    def _wrong_observation(self, observation: Any) -> str:
        try:
            self.array(observation)
        except (TypeError, ValueError):
            return f"returned {kind_of(observation)} as observation, but declares {self.declares}"
        return ""


def takes_seed(env: gym.Env[Any, Any]) -> bool:
    """Whether an environment's own reset() accepts a seed."""
    parameters = inspect.signature(env.unwrapped.reset).parameters
    return "seed" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def at(place: Sequence[Any]) -> str:
    """Where a number stands in an array; a number alone stands nowhere."""
    return f" at {[int(axis) for axis in place]}" if place else ""


def kind_of(value: Any) -> str:
    """Describe a value in a few words."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if isinstance(value, tuple | list | dict):
        return f"a {type(value).__name__} of length {len(value)}"
    if isinstance(value, int) and value.bit_length() > 128:  # Python refuses to print more than 4,300 digits
        return f"an integer of {value.bit_length():,} bits"
    if value is None or isinstance(value, int | float | np.generic):
        return repr(value)
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def numbers_of(value: Any) -> NDArray[Any] | None:
    """A value as an array of numbers; None if it is not one."""
    try:
        array = np.asarray(value)
    except (ValueError, RuntimeError):  # lists of different lengths; a tensor that requires a gradient
        return None
    return array if array.dtype.kind in "biuf" else None


def _wrong_reward(reward: Any) -> str:
    numbers = numbers_of(reward)
    if numbers is None or numbers.size != 1:
        return f"returned {kind_of(reward)} as reward, but must return a number"
    return ""


def _wrong_flag(name: str, flag: Any) -> str:
    return "" if is_flag(flag) else f"returned {kind_of(flag)} as {name}, but must return True or False"


def is_flag(value: Any) -> bool:
    """Whether a value means true or false: 0 and 1 do, None does not."""
    return isinstance(value, (bool, np.bool_)) or (np.size(value) == 1 and numbers_of(value) is not None)


def _wrong_info(info: Any) -> str:
    return "" if isinstance(info, Mapping) else f"returned {kind_of(info)} as info, but must return a dictionary"


def _unforeseen(error: Exception) -> str:
    return f"returned an unusable value ({type(error).__name__}: {error})"
