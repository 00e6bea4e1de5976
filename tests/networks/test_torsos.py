"""Encoders and torsos: what the observations become, and the paper's sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from bdqn.agents import AGENTS
from bdqn.config.observations import ObservationSpec
from bdqn.config.settings import SettingError, Training
from bdqn.networks import qnetwork
from bdqn.networks.heads import BayesianHead
from bdqn.networks.qnetwork import QNetwork, make_network
from bdqn.networks.torsos import Encoder, initialise, make_torso, output_width

ATARI = ObservationSpec((4, 84, 84), np.dtype(np.uint8), stack=4)
VECTOR = ObservationSpec((3,), np.dtype(np.float32))


def box(low: list[float], high: list[float]) -> ObservationSpec:
    bounds = np.array(low, np.float32), np.array(high, np.float32)
    return ObservationSpec((len(low),), np.dtype(np.float32), low=bounds[0], high=bounds[1])


def bits(*shape: int) -> ObservationSpec:
    return ObservationSpec(shape, np.dtype(np.bool_), low=np.zeros(shape, np.float32), high=np.ones(shape, np.float32))


def network(agent: str, spec: ObservationSpec, seed: int = 0, user: nn.Module | None = None) -> QNetwork:
    recipe = AGENTS[agent]
    return make_network(spec, 2, recipe.choices(recipe.settings()).head, Training(features=8), seed, user)


# --- encoders -----------------------------------------------------------------------------------


def test_bytes_of_images_become_0_to_1() -> None:
    obs = torch.tensor([0, 51, 255], dtype=torch.uint8).expand(1, 4, 84, 3)
    x = Encoder(ObservationSpec((4, 84, 3), np.dtype(np.uint8), stack=4))(obs)
    torch.testing.assert_close(x[0, 0, 0], torch.tensor([0.0, 0.2, 1.0]))


def test_bytes_of_images_that_hold_codes_are_scaled_by_their_bounds() -> None:
    high = np.broadcast_to(np.array([10, 5, 255], np.float32), (7, 7, 3))
    spec = ObservationSpec((7, 7, 3), np.dtype(np.uint8), low=np.zeros_like(high), high=high)
    x = Encoder(spec)(torch.tensor([10, 1, 51], dtype=torch.uint8).expand(1, 7, 7, 3))
    torch.testing.assert_close(x[0, :, 3, 4], torch.tensor([1.0, 0.2, 0.2]))


def test_bounded_values_become_minus_1_to_1_each_by_its_own_bounds() -> None:
    encoder = Encoder(box([-2.0, 1.0, 5.0], [2.0, 11.0, 5.0]))  # the last can have one value only
    x = encoder(torch.tensor([[-2.0, 1.0, 5.0], [0.0, 6.0, 5.0], [2.0, 11.0, 5.0]]))
    torch.testing.assert_close(x[:, :2], torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]))
    assert torch.isfinite(x).all()


def test_what_starts_at_zero_stays_there() -> None:
    """One among zeros, as in a grid that says where something is, is not to drown among minus ones."""
    x = Encoder(box([0.0, 0.0], [1.0, 10.0]))(torch.tensor([[0.0, 0.0], [1.0, 5.0]]))
    torch.testing.assert_close(x, torch.tensor([[0.0, 0.0], [1.0, 0.5]]))


def test_unbounded_values_are_left_alone() -> None:
    obs = torch.tensor([[-1e6, 0.5, 1e6]])
    torch.testing.assert_close(Encoder(VECTOR)(obs), obs)


def test_each_number_is_scaled_by_its_own_bounds_or_not_at_all() -> None:
    largest = float(np.finfo(np.float32).max)  # how Gymnasium also writes "unbounded"
    encoder = Encoder(box([-4.0, -np.inf, -largest, 0.0, -np.inf], [4.0, np.inf, largest, np.inf, 0.0]))
    expected = torch.tensor([[0.5, 3.0, 3.0, 3.0, 3.0]])
    torch.testing.assert_close(encoder(torch.tensor([[2.0, 3.0, 3.0, 3.0, 3.0]])), expected)


def test_categories_become_one_hot() -> None:
    spec = ObservationSpec((), np.dtype(np.int64), categories=3, first_category=5)
    x = Encoder(spec)(torch.tensor([7, 5]))
    torch.testing.assert_close(x, torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    assert output_width(make_torso(spec, torch.Generator()), spec) == 3


@pytest.mark.parametrize("channels", [4, 7, 10])  # MinAtar's Seaquest has as many channels as rows
def test_channels_that_come_last_are_moved_first_and_bits_stay_bits(channels: int) -> None:
    obs = torch.rand(2, 10, 10, channels) < 0.5
    x = Encoder(bits(10, 10, channels))(obs)
    torch.testing.assert_close(x, obs.float().permute(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("shape", "stack", "becomes"),
    [
        ((4, 84, 84), 4, (4, 84, 84)),
        ((40, 40, 40), 40, (40, 40, 40)),
        ((3, 64, 64), 0, (3, 64, 64)),
        ((96, 64, 3), 0, (3, 96, 64)),
        ((84, 84), 0, (1, 84, 84)),
        ((4, 5), 0, (20,)),
    ],
)
def test_what_counts_as_an_image_and_where_its_channels_are(
    shape: tuple[int, ...], stack: int, becomes: tuple[int, ...]
) -> None:
    spec = ObservationSpec(shape, np.dtype(np.uint8), stack=stack)
    obs = torch.arange(np.prod(shape), dtype=torch.float32).reshape(1, *shape)
    x = Encoder(spec)(obs)
    assert x.shape == (1, *becomes)
    if stack:
        torch.testing.assert_close(x, obs / 255)  # frames stay in their order
    assert output_width(make_torso(spec, torch.Generator()), spec) > 0


# --- sizes --------------------------------------------------------------------------------------


def parameter_counts(module: nn.Module) -> list[int]:
    kinds = (nn.Conv2d, nn.Linear)
    return [sum(p.numel() for p in m.parameters()) for m in module.modules() if isinstance(m, kinds)]


def test_the_papers_network() -> None:
    torso = make_torso(ATARI, torch.Generator())
    assert output_width(torso, ATARI) == 3136
    assert parameter_counts(torso) == [8_224, 32_832, 36_928]
    shapes = []
    for layer in torso:
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(lambda *call: shapes.append(tuple(call[2].shape[1:])))
    torso(torch.zeros(1, 4, 84, 84, dtype=torch.uint8))
    assert shapes == [(32, 20, 20), (64, 9, 9), (64, 7, 7)]

    choices = AGENTS["ddqn"].choices(AGENTS["ddqn"].settings())
    whole = make_network(ATARI, 18, choices.head, Training(features=512), 0, None)
    assert parameter_counts(whole.head) == [1_606_144, 9_234]


def test_minatars_network() -> None:
    spec = bits(10, 10, 4)
    torso = make_torso(spec, torch.Generator())
    assert output_width(torso, spec) == 16 * 8 * 8
    assert parameter_counts(torso) == [16 * (4 * 3 * 3 + 1)]


# --- weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["ddqn", "bdqn"])
@pytest.mark.parametrize("spec", [VECTOR, bits(10, 10, 4)])
def test_weights_come_from_the_seed_and_nothing_else(agent: str, spec: ObservationSpec) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = network(agent, spec)
    torch.testing.assert_close(torch.get_rng_state(), before)
    torch.manual_seed(2)
    same, other = network(agent, spec), network(agent, spec, seed=1)
    for name, value in one.state_dict().items():
        torch.testing.assert_close(same.state_dict()[name], value, rtol=0, atol=0)
        assert not torch.equal(other.state_dict()[name], value), name


def test_layers_start_as_pytorchs_own_do() -> None:
    ours, theirs = (nn.Sequential(nn.Conv2d(4, 64, 8), nn.Linear(300, 400)) for _ in range(2))
    initialise(ours, torch.Generator().manual_seed(0))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.abs().max(), b.abs().max(), rtol=0.1, atol=0)
        torch.testing.assert_close(a.std(), b.std(), rtol=0.2, atol=0)


def test_before_the_first_fit_a_bayesian_head_has_a_linear_layers_values() -> None:
    """All zeros would give the features no gradient."""
    head = network("bdqn", VECTOR).head
    assert isinstance(head, BayesianHead)
    assert not head.fitted
    assert (head.weights != 0).all()
    assert head.weights.shape == (2, 8 + 1)
    np.testing.assert_allclose(head.posterior.mean, head.weights.numpy())


def test_a_users_own_network_keeps_its_weights_and_gives_the_features() -> None:
    own = nn.Sequential(nn.Linear(3, 5), nn.Tanh())
    before = [p.clone() for p in own.parameters()]
    built = network("bdqn", VECTOR, user=own)
    obs = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(built.features(obs), own(obs))
    with torch.no_grad():
        for p in built.torso.parameters():
            p.zero_()  # training must not reach the user's object
    for p, q in zip(own.parameters(), before, strict=True):
        torch.testing.assert_close(p, q)


def test_a_users_network_must_give_one_row_of_features_per_observation() -> None:
    with pytest.raises(ValueError, match=r"features of shape \(batch, d\); for a batch of 2 it gave \(2, 3, 1\)"):
        network("bdqn", VECTOR, user=nn.Unflatten(1, (3, 1)))


class Does(nn.Module):
    """A user's network of one operation."""

    def __init__(self, operation: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.operation = operation

    def forward(self, x: torch.Tensor) -> Any:
        return self.operation(x)


@pytest.mark.parametrize(
    ("own", "says"),
    [
        (nn.Linear(4, 5), r"^The network cannot take observations, two of which .* shape \(2, 3\): RuntimeError: mat1"),
        (nn.Conv2d(1, 2, 3), r"^The network cannot take observations, two of which .* shape \(2, 3\): RuntimeError: "),
        (Does(lambda x: x.flatten()), r"for a batch of 2 it gave \(6,\)\.$"),
        (Does(lambda x: x.reshape(1, -1)), r"for a batch of 2 it gave \(1, 6\)\.$"),
        (Does(lambda x: x[:, :0]), r"for a batch of 2 it gave \(2, 0\)\.$"),
        (Does(lambda x: (x, None)), r"for a batch of 2 it gave a tuple\.$"),
        (Does(lambda x: None), r"for a batch of 2 it gave a NoneType\.$"),
        (Does(lambda x: x.long()), r"must give features as floats; it gave torch\.int64\.$"),
    ],
)
def test_a_users_network_that_does_not_fit_is_refused_in_a_sentence(own: nn.Module, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        network("bdqn", VECTOR, user=own)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_observations_of_many_axes_are_flattened(shape: tuple[int, ...]) -> None:
    spec = ObservationSpec(
        shape, np.dtype(np.float32), low=np.full(shape, -2, np.float32), high=np.full(shape, 2, np.float32)
    )
    torso = make_torso(spec, torch.Generator())
    obs = torch.rand(3, *shape)
    torch.testing.assert_close(torso(obs), (obs / 2).flatten(1))


def test_dense_layers_must_fit_beside_a_minibatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either would fit alone."""
    monkeypatch.setattr(qnetwork, "free_memory", lambda: 10**9)
    layers = {"features": 8, "layers": 1, "num_actions": 2, "copies": 1}
    qnetwork.check_network_memory(5 * 10**6, **layers, batch_size=1)
    with pytest.raises(SettingError, match=r"Dense layers of 8 features need 0.8 GB .* set features to at most 5\.$"):
        qnetwork.check_network_memory(5 * 10**6, **layers, batch_size=10)
    with pytest.raises(SettingError, match=r"0.0 GB are free: make observations smaller\.$"):
        qnetwork.check_network_memory(5 * 10**6, **layers, batch_size=100)
