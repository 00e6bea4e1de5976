"""Draws of two kinds: modest ones, and bold ones in the environments where those pay (`boldness`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from bdqn.qlearning.boldness import BOLD, METRICS, NAMES, Boldness
from bdqn.qlearning.draws import Draws, Redraw
from bdqn.qlearning.finite_checks import check_draw
from bdqn.qlearning.loops import Loops

if TYPE_CHECKING:
    from torch import Tensor

    from bdqn.networks.heads import Head, Index
    from bdqn.replay.duplicates import Recurrence


FOLLOWS_MEAN, ASTRAY = 1, 2  # a modest draw went round in circles, so the mean acts; so did that, so a bold draw does


class BoldDraws(Draws):
    """Draws of which ``boldness`` decides where bold ones act; the training draw is never bold."""

    metric_names = ("explore/bold_share", *METRICS, "explore/draw_departs")

    def __init__(
        self,
        head: Head,
        redraw: Redraw | None,
        num_envs: int,
        rng: np.random.Generator,
        boldness: Boldness,
        loops: Loops | None = None,
    ) -> None:
        """With ``loops``, a draw that goes round in circles is replaced."""
        self.boldness, self._loops = boldness, loops
        self._circled = np.zeros(num_envs, np.int64)  # how often what modest draws know led nowhere
        self._gained = np.zeros(num_envs, np.bool_)  # a reward, in this segment
        super().__init__(head, redraw, num_envs, rng)

    def apart(self, num_envs: int, rng: np.random.Generator) -> Draws:
        loops = None if self._loops is None else Loops(num_envs)
        return BoldDraws(self._head, self._redraw, num_envs, rng, self.boldness.apart(num_envs, rng), loops)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(NAMES[int(bold)] for bold in self._is_bold)

    @property
    def at_random(self) -> NDArray[np.bool_]:
        return self.boldness.at_random

    @property
    def _is_bold(self) -> NDArray[np.bool_]:
        bold: NDArray[np.bool_] = (self._circled == ASTRAY) | (self.boldness.kinds == BOLD)
        return bold

    def fitted(self, recurrence: Recurrence) -> None:
        self.boldness.fitted(recurrence)
        self._circled[:] = 0  # modest draws know more now
        super().fitted(recurrence)

    def advance(self, ended: NDArray[np.bool_], reward: NDArray[np.float64], obs: NDArray[Any]) -> None:
        switching = self.boldness.add(reward, ended)
        self._circled[switching] = 0
        self._gained = ~switching & (self._gained | (reward > 0))
        if self._loops is not None and self.boldness.recurrence.is_exact:
            switching |= self._stuck(self._loops, obs, ended, switching)
        if self._redraw is not None and not self._redraw.steps and not self._redraw.acting_steps:
            switching &= ~ended  # there is a new draw anyway
        if switching.any():
            self._renew_acting(np.flatnonzero(switching))
        super().advance(ended, reward, obs)

    def _stuck(
        self, loops: Loops, obs: NDArray[Any], ended: NDArray[np.bool_], switching: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Where what acts goes round in circles, and is to be replaced: a modest draw only if it had no reward.

        The mean takes its place. If that goes round in circles, too, what is known leads nowhere: a bold draw acts.
        """
        bold = self._is_bold
        circling = loops.found(obs, bold | self.boldness.recurrence.is_common, ended)
        if not circling.any():
            return circling
        nowhere = circling & ~bold & ~self._gained & ~switching
        self._circled[nowhere] += 1
        return nowhere | (circling & bold)

    def _renew_acting(self, envs: NDArray[np.int64]) -> None:
        if self._loops is not None:
            self._loops.forget(envs)
        bold, mean = self._is_bold[envs], self._circled[envs] == FOLLOWS_MEAN
        if self.training is None or self._redraw is None or not (bold | mean).any():
            super()._renew_acting(envs)
            return
        self._place(envs[bold], self._draw_bold)
        self._place(envs[mean], self._mean)
        self._place(envs[~bold & ~mean], self._draw)

    def _place(self, envs: NDArray[np.int64], draw: Callable[[int], Index]) -> None:
        if not len(envs):
            return
        draws = draw(len(envs))
        assert draws is not None
        # A copy: with one environment, what acts and what is trained may be one and the same tensor.
        acting = draws[:1].repeat_interleave(self._num_envs, 0) if self.acting is None else self.acting.clone()
        acting[torch.as_tensor(envs)] = draws
        self.acting = acting

    def _mean(self, count: int) -> Index:
        mean = self._head.mean_index
        assert mean is not None
        return mean[None].repeat_interleave(count, 0)

    def _draw_bold(self, count: int) -> Index:
        draw = self._head.draw_bold(self._rng, count)
        check_draw(draw, self._steps)
        return draw

    def metrics(self, phi: Tensor) -> dict[str, float]:
        """Which kind acts and what each has returned; and the share of states in which a draw departs from the mean."""
        assert self.acting is not None
        best = self._head.forward(phi, self._head.mean_index).argmax(1)
        departs = [(self._head.forward(phi, acting).argmax(1) != best).float().mean() for acting in self.acting]
        acting = {"explore/bold_share": float(self._is_bold.mean())}
        return self.boldness.metrics() | acting | {"explore/draw_departs": float(torch.stack(departs).mean())}

    def state(self) -> dict[str, Any]:
        loops = {} if self._loops is None else {"loops": self._loops.state()}
        segment = {"circled": self._circled, "gained": self._gained}
        return {**super().state(), "boldness": self.boldness.state(), "segment": segment, **loops}

    def load_state(self, state: Mapping[str, Any], device: torch.device) -> None:
        super().load_state(state, device)
        self.boldness.load_state(state["boldness"])
        segment = state["segment"]
        self._circled, self._gained = np.array(segment["circled"], np.int64), np.array(segment["gained"], np.bool_)
        if self._loops is not None:
            self._loops.load_state(state["loops"])
