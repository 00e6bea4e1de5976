"""Frozen features follow the data: where images hardly differ, they are finer than given."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bdqn.config.observations import ObservationSpec
from bdqn.networks.frozen_priors import FrozenFeatures

PLACES = torch.eye(64).reshape(64, 8, 8, 1).repeat(6, 1, 1, 1)  # where something stands in an image


def features() -> FrozenFeatures:
    spec = ObservationSpec((8, 8, 1), np.dtype(np.float32))
    assert spec.is_image
    made = FrozenFeatures(spec, [16], 2, torch.Generator().manual_seed(0), count=512, lengthscale=0.5)
    return made.requires_grad_(False)


@pytest.mark.parametrize("contrast", [1.0, 1e-3])
def test_places_in_an_image_are_told_apart_whatever_its_contrast(contrast: float) -> None:
    frozen, seen = features(), contrast * PLACES
    frozen.adapt(seen, seen[:64], in_use=True)
    phi = frozen(seen[:64])
    alike = (phi @ phi.T - torch.eye(64)).abs().mean()  # of two places; 1: they look the same
    assert alike < 0.5


def test_without_it_a_faint_image_would_look_the_same_everywhere() -> None:
    phi = features()(1e-3 * PLACES[:64])
    assert (phi @ phi.T).mean() > 0.9


def test_whether_they_are_used_is_part_of_their_state() -> None:
    frozen, other, seen = features(), features(), PLACES
    frozen.adapt(seen, seen[:64], in_use=False)
    other.load_state_dict(frozen.state_dict())
    assert not other(seen[:5]).any()
    frozen.adapt(seen, seen[:64], in_use=True)
    assert frozen(seen[:5]).any()
    other.load_state_dict(frozen.state_dict())
    assert torch.equal(other(seen[:5]), frozen(seen[:5]))
