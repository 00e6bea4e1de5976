"""Graves' RMSProp, written out in NumPy."""

import numpy as np
import torch
from numpy.testing import assert_allclose

from bdqn.optim import GravesRMSProp, make_optimizer
from bdqn.settings import Training

GRADIENTS = np.array([[1.0, -2.0, 0.0], [0.5, -2.0, 1e-3], [3.0, 4.0, -1e-3]])
START = np.array([1.0, 2.0, 3.0])


def parameter(values: np.ndarray = START) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(values, dtype=torch.float64))


def take(optimizer: torch.optim.Optimizer, weights: torch.nn.Parameter, gradients: np.ndarray) -> np.ndarray:
    for gradient in gradients:
        weights.grad = torch.tensor(gradient, dtype=weights.dtype)
        optimizer.step()
    return weights.detach().numpy()


def by_hand(lr: float, decay: float, momentum: float, eps: float) -> np.ndarray:
    """Graves (2013), Eq. 38-45: n, g and Delta are what he calls them."""
    w, n, g, delta = START.copy(), np.zeros(3), np.zeros(3), np.zeros(3)
    for gradient in GRADIENTS:
        n = decay * n + (1 - decay) * gradient**2
        g = decay * g + (1 - decay) * gradient
        delta = momentum * delta - lr * gradient / np.sqrt(n - g**2 + eps)
        w = w + delta
    return w


def test_three_steps_are_graves_formulas() -> None:
    weights = parameter()
    found = take(GravesRMSProp([weights], lr=0.1, decay=0.9, momentum=0.8, eps=0.01), weights, GRADIENTS)
    assert_allclose(found, by_hand(0.1, 0.9, 0.8, 0.01), rtol=1e-12)


def test_epsilon_is_inside_the_root() -> None:
    """A first gradient of 1e-3 moves by 0.1 * 1e-3 / sqrt(0.01), ten times less than PyTorch's own would."""
    ours, theirs = parameter(np.zeros(1)), parameter(np.zeros(1))
    options = {"lr": 0.1, "momentum": 0.95, "eps": 0.01}
    step = take(GravesRMSProp([ours], decay=0.95, **options), ours, np.array([[1e-3]]))
    other = take(torch.optim.RMSprop([theirs], alpha=0.95, centered=True, **options), theirs, np.array([[1e-3]]))
    assert_allclose(step, -1e-3, rtol=1e-4)
    assert_allclose(other, -1e-2, rtol=0.05)


def test_a_constant_gradient_never_gives_a_root_of_less_than_epsilon() -> None:
    """Its variance is zero, and in single precision may round to less."""
    weights = torch.nn.Parameter(torch.zeros(1000))
    optimizer = GravesRMSProp([weights], lr=1.0, decay=0.95, momentum=0.0, eps=1e-12)
    gradient = torch.linspace(1e3, 1e4, 1000)
    for _ in range(300):
        weights.grad = gradient
        optimizer.step()
    assert torch.isfinite(weights).all()


def test_parameters_without_gradient_stay() -> None:
    used, unused = parameter(), parameter()
    take(GravesRMSProp([used, unused], lr=0.1), used, GRADIENTS)
    assert_allclose(unused.detach().numpy(), START)
    assert not np.allclose(used.detach().numpy(), START)


def test_a_restored_optimizer_goes_on_as_the_saved_one() -> None:
    straight = parameter()
    expected = take(GravesRMSProp([straight], lr=0.1), straight, GRADIENTS)

    first = parameter()
    saved = GravesRMSProp([first], lr=0.1)
    halfway = take(saved, first, GRADIENTS[:2])
    second = parameter(halfway.copy())
    restored = GravesRMSProp([second], lr=0.1)
    restored.load_state_dict(saved.state_dict())
    assert_allclose(take(restored, second, GRADIENTS[2:]), expected, rtol=1e-12)


def test_all_of_its_state_follows_the_parameters_when_loaded() -> None:
    """As it must when training goes on elsewhere; precision stands in for a device that a test may lack."""
    single, double = torch.nn.Parameter(torch.ones(3)), parameter()
    saved, restored = GravesRMSProp([single], lr=0.1), GravesRMSProp([double], lr=0.1)
    take(saved, single, GRADIENTS)
    restored.load_state_dict(saved.state_dict())
    assert {tensor.dtype for tensor in restored.state[double].values()} == {torch.float64}


def test_the_settings_reach_the_optimizer() -> None:
    rmsprop = make_optimizer(
        [parameter()], Training(optimizer="rmsprop", learning_rate=0.1, momentum=0.8, optimizer_eps=0.02)
    )
    assert isinstance(rmsprop, GravesRMSProp)
    group = rmsprop.param_groups[0]
    assert [group[name] for name in ("lr", "decay", "momentum", "eps")] == [0.1, 0.8, 0.8, 0.02]

    adam = make_optimizer([parameter()], Training(learning_rate=0.1, optimizer_eps=0.02))
    assert isinstance(adam, torch.optim.Adam)
    assert [adam.param_groups[0][name] for name in ("lr", "eps")] == [0.1, 0.02]
