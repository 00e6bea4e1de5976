"""Frozen random functions of an observation, which stand beside what is learned and keep new states uncertain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bdqn.bayes.resolution import resolution
from bdqn.config.observations import ObservationSpec
from bdqn.config.settings import SettingError
from bdqn.networks.heads import EnsembleHead, HeadShape
from bdqn.networks.torsos import FourierFeatures, make_torso, output_width

_NEEDS_PARTS = "reads the last numbers of observations, which bdqn.envs.EpisodeParts adds: make the environment with it"


def largest_count(count: int, most: int) -> int:
    """How many features there are once they have doubled as often as ``most`` allows."""
    return count << ((most // count).bit_length() - 1) if 0 < count <= most else count


def saved_count(tensors: Mapping[str, Any], of: str = "prior.") -> int:
    """How many frozen features the network has, or the module ``of`` it, whose tensors were saved; 0: none."""
    phases = tensors.get(f"{of}features.phases")
    return 0 if phases is None else len(phases)


class FrozenPrior(nn.Module):
    """A module that gradients do not train."""

    def adapt(self, seen: Tensor, recent: Tensor, *, in_use: bool) -> tuple[float, ...]:
        """Follow the data, given observations seen earlier and recently; metrics of that, if there are any.

        One that can be spared answers nothing while it is not ``in_use``, as if it answered zeros.
        """
        return ()

    @property
    def can_grow(self) -> bool:
        """Whether it may ever have more outputs than now."""
        return False

    def grow(self, observations: int) -> int:
        """Tell so many observations apart, if it can; its outputs, where there are more of them now, otherwise 0."""
        return 0

    def grow_like(self, saved: Mapping[str, Any]) -> int:
        """Have as many outputs as the one whose tensors were ``saved``; how many, where these are more, otherwise 0."""
        return 0


class FrozenQ(FrozenPrior):
    """Frozen random Q-functions of an observation (Osband et al., 2018), ``members`` of them side by side."""

    def __init__(
        self, spec: ObservationSpec, hidden: list[int], num_actions: int, generator: torch.Generator, members: int
    ) -> None:
        super().__init__()
        self.torso = make_torso(spec, generator)
        shape = HeadShape((output_width(self.torso, spec), *hidden), num_actions)
        self.head = EnsembleHead(shape, generator, members)
        self.requires_grad_(False)
        for name, parameter in self.named_parameters():
            # No biases, which all observations would share, and no layer that shrinks what differs between them.
            if parameter.ndim < 2 or "biases" in name:
                nn.init.zeros_(parameter)
            else:
                fan_in = parameter[0].numel() if parameter.ndim == 4 else parameter.shape[-1]
                nn.init.normal_(parameter, std=math.sqrt(2 / fan_in), generator=generator)

    def forward(self, obs: Tensor) -> Tensor:
        return self.head.forward(self.torso.forward(obs), self.head.all_members).flatten(1)


class EpisodePart(FrozenPrior):
    """Which part of an episode an observation belongs to, as its last ``parts`` numbers say."""

    def __init__(
        self, spec: ObservationSpec, hidden: list[int], num_actions: int, generator: torch.Generator, parts: int
    ) -> None:
        super().__init__()
        if len(spec.shape) != 1 or spec.low is None or spec.high is None or spec.leaves or len(spec.low) <= parts:
            raise SettingError(f"posterior_parts = {parts} {_NEEDS_PARTS}, but they are no vectors of numbers.")
        if (spec.low[-parts:] != 0).any() or (spec.high[-parts:] != 1).any():
            raise SettingError(f"posterior_parts = {parts} {_NEEDS_PARTS}, but those are not bounded by 0 and 1.")
        self._parts = parts

    def forward(self, obs: Tensor) -> Tensor:
        return obs[:, -self._parts :].float()


class FrozenFeatures(FrozenPrior):
    """Frozen random features of an observation, in which what has not been seen differs from what has.

    Fourier features of flat observations; of images, those of what a frozen random convolutional torso makes of them.
    """

    in_use: Tensor  # false: it answers nothing, which costs nothing

    def __init__(
        self,
        spec: ObservationSpec,
        hidden: list[int],
        num_actions: int,
        generator: torch.Generator,
        count: int,
        lengthscale: float,
        scales: int = 1,
        most: int = 0,
    ) -> None:
        """``scales`` lengthscales, from half of the given one on, each twice the last; 1: only the given one.

        It has ``count`` features, and may grow to ``most``.
        """
        super().__init__()
        self._most = most
        self.torso = make_torso(spec, generator)
        self.features = FourierFeatures(output_width(self.torso, spec), count, lengthscale, generator, scales)
        self._finest, self._is_image = lengthscale, spec.is_image
        self.register_buffer("in_use", torch.tensor(True))
        self._note_use()

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._note_use()

    def _note_use(self) -> None:
        """Remember it on the host: every pass asks, and would wait for the device."""
        self._is_used = bool(self.in_use)

    def forward(self, obs: Tensor) -> Tensor:
        if not self._is_used:
            return torch.empty(len(obs), 0, device=obs.device)
        return self.features.forward(self.torso.forward(obs))

    def grow(self, observations: int) -> int:
        """Twice as many, where there are fewer: what nobody has seen would be a combination of what was seen."""
        return self._grow_to(2 * observations) if self.features.count < observations <= self._most else 0

    def grow_like(self, saved: Mapping[str, Any]) -> int:
        return self._grow_to(saved_count(saved, ""))

    @property
    def can_grow(self) -> bool:
        return largest_count(self.features.count, self._most) > self.features.count

    def _grow_to(self, least: int) -> int:
        before = self.features.count
        while self.features.count < least and self.can_grow:
            self.features.add_as_many()
        return self.features.count if self.features.count > before else 0

    def adapt(self, seen: Tensor, recent: Tensor, *, in_use: bool) -> tuple[float, ...]:
        """As fine as given, or coarser until recent observations are known: the lengthscale, and their novelty.

        A torso's output has no unit: where images hardly differ in it, the finest lengthscale is what they differ by.
        """
        old, new = (self.torso.forward(obs).cpu().numpy().astype(np.float64) for obs in (seen, recent))
        differ = math.sqrt(2 * old.var(0).sum())  # root mean square of the distance between two
        finest = self._finest * min(1.0, differ or 1.0) if self._is_image else self._finest
        lengthscale, novelty = resolution(old, new, finest)
        self.features.coarsen(lengthscale / self._finest)
        self.in_use.fill_(in_use)
        self._note_use()
        return lengthscale, novelty
