"""Action masks: which actions an environment allows where it stands.

It offers them as ``info["action_mask"]``, by a method ``action_masks()``, or both. `BadAnswer` refuses unusable ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bdqn.envs.answers import BadAnswer, kind_of, numbers_of
from bdqn.envs.products import ProductSpace
from bdqn.envs.spaces import name_of
from bdqn.envs.supervision import blame

KEY, METHOD = "action_mask", "action_masks"
INFO = f'info["{KEY}"]'

Mask = NDArray[np.bool_]  # (actions,)


class MaskReader:
    """Reads the masks of environments of one kind, all of which offer them in the same way or not at all."""

    def __init__(self, name: str, actions: spaces.Discrete, *, by_method: bool) -> None:
        self.name, self.num_actions = name, int(actions.n)
        self._each = "combination of actions" if isinstance(actions, ProductSpace) else "action"
        self._by_method = by_method
        self._in_info: bool | None = None  # not known before the first reset
        self.offered = by_method  # whether there are masks; known once the first environment has been reset

    @property
    def sources(self) -> str:
        """How masks are offered, in words; empty: not at all."""
        return " and ".join([*([INFO] if self._in_info else []), *([f"{METHOD}()"] if self._by_method else [])])

    def first(self, i: int, info: Mapping[str, Any], env: gym.Env[Any, Any] | None = None) -> Mask | None:
        """The mask at the first observation of environment ``i``; None: all actions are always allowed."""
        if self._in_info is None:
            self._in_info = KEY in info
            self.offered |= self._in_info
        return self.read(i, info, "reset()", env)

    def read(self, i: int, info: Mapping[str, Any], call: str, env: gym.Env[Any, Any] | None = None) -> Mask | None:
        """The mask where environment ``i`` stands after a ``call``, which has given this ``info``.

        It itself is asked only if there is a method.
        """
        if (KEY in info) != self._in_info:
            which, first, everywhere = "", "its first reset()", "at every reset and every step"
            if i:
                which, first, everywhere = f" in environment {i}", "environment 0", f"in all environments, {everywhere}"
            raise BadAnswer(
                f"{call} of {self.name}{which} gave {'' if KEY in info else 'no '}{INFO}, unlike {first}: give it "
                f"{everywhere}, or never."
            )
        masks = [self._usable(info[KEY], INFO)] if self._in_info else []
        if self._by_method:
            assert env is not None
            masks.append(self._usable(self._ask(env), f"{METHOD}()"))
        if len(masks) == 2 and (masks[0] != masks[1]).any():
            raise BadAnswer(
                f"After {call}, {INFO} and {METHOD}() of {self.name} allow different actions: they must agree, or one "
                "of them must go."
            )
        return masks[0] if masks else None

    def _ask(self, env: gym.Env[Any, Any]) -> Any:
        method = env.get_wrapper_attr(METHOD)
        if not callable(method):
            raise BadAnswer(
                f"{METHOD} of {self.name} is {kind_of(method)}, but must be a method that gives the mask of where it "
                "stands: make it one, or give it another name."
            )
        try:
            return method()
        except Exception as error:
            blame(error, f"{METHOD}() of {self.name}")
            raise

    def _usable(self, given: Any, source: str) -> Mask:
        mask = numbers_of(given)
        if mask is None or mask.shape != (self.num_actions,):
            raise BadAnswer(
                f"{source} of {self.name} is {kind_of(given)}, but must hold {self.num_actions} numbers, one for each "
                f"{self._each}: 1 where it is allowed, and 0 where it is not."
            )
        if mask.dtype != np.bool_ and len(others := mask[(mask != 0) & (mask != 1)]):
            raise BadAnswer(
                f"{source} of {self.name} holds {others[0]:g}, but must hold 1 where an action is allowed, and 0 where "
                "it is not."
            )
        mask = mask.astype(np.bool_)
        if not mask.any():
            raise BadAnswer(
                f"{source} of {self.name} allows no action, though the episode has not terminated: allow at least one, "
                "or return terminated=True."
            )
        return mask


def check_allowed(actions: Any, allowed: NDArray[np.bool_]) -> None:
    """Refuse actions, one for each row of masks, that these do not allow."""
    for env, (action, mask) in enumerate(zip(actions, allowed, strict=True)):
        if not mask[action]:
            raise ValueError(
                f"Action {int(action)} is not allowed in environment {env}: a policy must choose among q.allowed."
            )


def all_offer_masks(envs: Sequence[gym.Env[Any, Any]]) -> bool:
    """Whether environments have a method action_masks(): all of them, or none."""
    offer = [_offers_masks(env) for env in envs]
    if len(set(offer)) > 1:
        odd = offer.index(not offer[0])
        raise BadAnswer(
            f"{name_of(envs[odd])} in environment {odd} has {'a' if offer[odd] else 'no'} method {METHOD}(), unlike "
            "environment 0: give it to all environments, or to none."
        )
    return offer[0]


def _offers_masks(env: gym.Env[Any, Any]) -> bool:
    """Whether it has a method action_masks(); its own __getattr__ is asked, and may fail."""
    try:
        return env.has_wrapper_attr(METHOD)
    except Exception as error:
        raise BadAnswer(
            f"{name_of(env)} raised {type(error).__name__} when it was asked for {METHOD}: its __getattr__ must "
            "raise AttributeError for what it does not have."
        ) from error
