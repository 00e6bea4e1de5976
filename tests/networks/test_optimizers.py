"""Graves' RMSProp, written out in NumPy; Adam as PyTorch has it."""

from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose

from bdqn.config.settings import Training
from bdqn.networks.optimizers import Adam, GravesRMSProp, make_optimizer

GRADIENTS = np.array([[1.0, -2.0, 0.0], [0.5, -2.0, 1e-3], [3.0, 4.0, -1e-3]])
START = np.array([1.0, 2.0, 3.0])


def parameter(values: np.ndarray = START) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(values, dtype=torch.float64))


def take(optimizer: Any, weights: torch.nn.Parameter, gradients: np.ndarray) -> np.ndarray:
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
    found = take(GravesRMSProp([("w", weights)], lr=0.1, decay=0.9, momentum=0.8, eps=0.01), weights, GRADIENTS)
    assert_allclose(found, by_hand(0.1, 0.9, 0.8, 0.01), rtol=1e-12)


def test_epsilon_is_inside_the_root() -> None:
    """A first gradient of 1e-3 moves by 0.1 * 1e-3 / sqrt(0.01), ten times less than PyTorch's own would."""
    ours, theirs = parameter(np.zeros(1)), parameter(np.zeros(1))
    options = {"lr": 0.1, "momentum": 0.95, "eps": 0.01}
    step = take(GravesRMSProp([("w", ours)], decay=0.95, **options), ours, np.array([[1e-3]]))
    other = take(torch.optim.RMSprop([theirs], alpha=0.95, centered=True, **options), theirs, np.array([[1e-3]]))
    assert_allclose(step, -1e-3, rtol=1e-4)
    assert_allclose(other, -1e-2, rtol=0.05)


def test_a_constant_gradient_never_gives_a_root_of_less_than_epsilon() -> None:
    """Its variance is zero, and in single precision may round to less."""
    weights = torch.nn.Parameter(torch.zeros(1000))
    optimizer = GravesRMSProp([("w", weights)], lr=1.0, decay=0.95, momentum=0.0, eps=1e-12)
    gradient = torch.linspace(1e3, 1e4, 1000)
    for _ in range(300):
        weights.grad = gradient
        optimizer.step()
    assert torch.isfinite(weights).all()


def test_parameters_without_gradient_stay() -> None:
    used, unused = parameter(), parameter()
    take(GravesRMSProp([("used", used), ("unused", unused)], lr=0.1), used, GRADIENTS)
    assert_allclose(unused.detach().numpy(), START)
    assert not np.allclose(used.detach().numpy(), START)


def test_a_restored_optimizer_goes_on_as_the_saved_one() -> None:
    straight = parameter()
    expected = take(GravesRMSProp([("w", straight)], lr=0.1), straight, GRADIENTS)

    first = parameter()
    saved = GravesRMSProp([("w", first)], lr=0.1)
    halfway = take(saved, first, GRADIENTS[:2])
    second = parameter(halfway.copy())
    restored = GravesRMSProp([("w", second)], lr=0.1)
    restored.load_state(saved.state())
    assert_allclose(take(restored, second, GRADIENTS[2:]), expected, rtol=1e-12)


def test_all_of_its_state_follows_the_parameters_when_loaded() -> None:
    """As it must when training goes on elsewhere; precision stands in for a device that a test may lack."""
    single, double = torch.nn.Parameter(torch.ones(3)), parameter()
    saved, restored = GravesRMSProp([("w", single)], lr=0.1), GravesRMSProp([("w", double)], lr=0.1)
    take(saved, single, GRADIENTS)
    restored.load_state(saved.state())
    state = restored.state()
    assert {state[average]["w"].dtype for average in GravesRMSProp.averages} == {torch.float64}
    assert all(state[average]["w"].abs().sum() > 0 for average in GravesRMSProp.averages)


def test_adam_is_pytorchs_to_the_last_bit() -> None:
    """On weights in both memory layouts, one of which has no gradient at first."""
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(8, 3, 3, 3, generator=generator), torch.randn(40, 7, generator=generator)]
    start.append(start[0].contiguous(memory_format=torch.channels_last))
    ours, theirs = ([torch.nn.Parameter(tensor.clone()) for tensor in start] for _ in range(2))
    adam = Adam([(str(i), weights) for i, weights in enumerate(ours)], lr=0.01, eps=1e-5)
    oracle = torch.optim.Adam(theirs, lr=0.01, eps=1e-5, fused=True)
    for _ in range(20):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn(mine.shape, generator=generator)
            other.grad = mine.grad.clone()
        adam.step()
        oracle.step()
    assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))


def test_what_was_saved_in_one_memory_layout_goes_on_in_another() -> None:
    """Files know no layout; a fused step looks at nothing else."""
    plain = torch.nn.Parameter(torch.randn(4, 3, 2, 2, generator=torch.Generator().manual_seed(0)))
    straight, pixels = (
        torch.nn.Parameter(plain.detach().clone().contiguous(memory_format=layout))
        for layout in (torch.contiguous_format, torch.channels_last)
    )
    optimizers = {weights: Adam([("w", weights)], lr=0.1, eps=1e-5) for weights in (straight, pixels)}
    gradient = torch.randn(plain.shape, generator=torch.Generator().manual_seed(1))
    for weights, optimizer in optimizers.items():
        weights.grad = gradient.clone(memory_format=torch.preserve_format).to(
            memory_format=torch.channels_last if weights is pixels else torch.contiguous_format
        )
        optimizer.step()
    optimizers[pixels].load_state(optimizers[straight].state())
    for optimizer in optimizers.values():
        optimizer.step()
    assert torch.equal(straight, pixels)


def test_frozen_parameters_are_left_out() -> None:
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    optimizer = Adam([("frozen", frozen), ("w", parameter())], lr=0.1, eps=1e-5)
    assert list(optimizer.state()["exp_avg"]) == ["w"]
    optimizer.step()  # and without any gradient nothing happens
    assert optimizer.state()["steps"] == 0


def test_the_settings_reach_the_optimizer() -> None:
    rmsprop = make_optimizer(
        [("w", parameter())], Training(optimizer="rmsprop", learning_rate=0.1, momentum=0.8, optimizer_eps=0.02)
    )
    assert isinstance(rmsprop, GravesRMSProp)
    assert [rmsprop.lr, rmsprop.decay, rmsprop.momentum, rmsprop.eps] == [0.1, 0.8, 0.8, 0.02]

    adam = make_optimizer([("w", parameter())], Training(learning_rate=0.1, optimizer_eps=0.02))
    assert isinstance(adam, Adam)
    assert [adam.lr, adam.eps] == [0.1, 0.02]
