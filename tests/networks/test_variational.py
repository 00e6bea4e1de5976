"""The head of BBQ-networks against closed forms, explicit weights and many draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import softplus

from bdqn.config.settings import Training
from bdqn.networks.heads import HeadShape, VariationalHead
from bdqn.networks.heads.regression import layer_weights
from support.agents import VECTOR, build, loss_and_gradients, random_batch


def make_head(sizes: tuple[int, ...] = (3, 5, 4), *, sigma0: float = 0.7, lasting: bool = True) -> VariationalHead:
    """Two actions, and scales that differ between weights."""
    seeded = torch.Generator().manual_seed(0)
    head = VariationalHead(HeadShape(sizes, 2), seeded, sigma0=sigma0, prior_sigma=1.3, kl_scale=1.0, lasting=lasting)
    with torch.no_grad():
        for rho in head.rhos:
            rho.add_(torch.randn(rho.shape, generator=seeded))
    return head


def posterior_of(head: VariationalHead) -> list[Normal]:
    """The weights' distributions as torch has them, layer by layer, biases in the last column."""
    return [Normal(layer_weights(head.mu(i)), softplus(rho)) for i, rho in enumerate(head.rhos)]


def test_the_divergence_is_that_of_torch_distributions() -> None:
    head = make_head()
    prior_stds = [1.3 / math.sqrt(inputs) for inputs in (3, 5, 4)]
    layers = zip(posterior_of(head), prior_stds, strict=True)
    expected = sum(kl_divergence(q, Normal(torch.zeros_like(q.mean), std)).sum() for q, std in layers)
    torch.testing.assert_close(head.divergence(), expected)
    own, theirs = (torch.autograd.grad(kl, list(head.parameters())) for kl in (head.divergence(), expected))
    for gradient, known in zip(own, theirs, strict=True):
        torch.testing.assert_close(gradient, known)


def test_the_divergence_of_two_weights_by_hand() -> None:
    head = VariationalHead(
        HeadShape((1,), 1),
        torch.Generator().manual_seed(0),
        sigma0=0.5,
        prior_sigma=2.0,
        kl_scale=3.0,
        lasting=True,
    )
    with torch.no_grad():
        head.last.weight.fill_(1.0)
        head.last.bias.fill_(0.0)
    # weight: log(2 / 0.5) + (0.5^2 + 1^2) / (2 * 2^2) - 1/2; bias: the same without 1^2
    by_hand = (math.log(4) + 1.25 / 8 - 0.5) + (math.log(4) + 0.25 / 8 - 0.5)
    assert head.divergence().item() == pytest.approx(by_hand, rel=1e-6)
    assert head.penalty(200).item() == pytest.approx(3.0 * by_hand / 200, rel=1e-6)


def test_the_loss_has_the_divergence_divided_by_the_transitions_held() -> None:
    batch = random_batch(VECTOR)
    training = Training(buffer_size=100, gradient_divisor=2.0)
    for scale, seen, data in ((2.0, 40, 40), (2.0, 4000, 100)):
        plain, agent = (build("bbq", VECTOR, training, kl_scale=kl) for kl in (0.0, scale))
        for each in (plain, agent):
            each.replay.seen = seen
        expected = plain.loss(batch).item() + scale * agent.online.head.divergence().item() / data / 2.0
        assert agent.loss(batch).item() == pytest.approx(expected, rel=1e-6)


@torch.no_grad()
def test_a_lasting_draw_is_an_explicit_weight_draw_for_all_rows_or_for_each() -> None:
    head = make_head()
    phi = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    rows = head.draw(np.random.default_rng(0), 6)
    assert rows.shape == (6, 5 * 4 + 4 * 6 + 2 * 5)
    per_row = head(phi, rows)
    for row in range(6):
        x, rest = phi[row], rows[row]
        for i, q in enumerate(posterior_of(head)):
            e, rest = rest[: q.mean.numel()].view_as(q.mean), rest[q.mean.numel() :]
            weights = q.mean + q.stddev * e
            x = weights[:, :-1] @ x + weights[:, -1]
            x = x if i == 2 else x.relu()
        torch.testing.assert_close(per_row[row], x)
        torch.testing.assert_close(head(phi, rows[row])[row], x)  # one draw for all rows


@torch.no_grad()
def test_local_noise_has_the_mean_and_covariance_of_many_weight_draws() -> None:
    """Of one observation, through all layers; between rows, local noise is independent."""
    draws, phi = 40_000, torch.tensor([[0.5, -1.0, 2.0]])
    by_weights, by_units = (make_head(lasting=lasting) for lasting in (True, False))
    samples = [
        head(phi.expand(draws, -1), head.draw(np.random.default_rng(0), draws)) for head in (by_weights, by_units)
    ]
    assert by_units.draw(np.random.default_rng(0), 1).shape == (1, 5 + 4 + 2)
    (mean, cov), (local_mean, local_cov) = ((q.mean(0), torch.cov(q.T)) for q in samples)
    error = 5 * (cov.diagonal() / draws).sqrt()  # five standard errors of a mean
    assert ((mean - local_mean).abs() < error).all()
    torch.testing.assert_close(local_cov, cov, rtol=0.06, atol=0.06 * cov.diagonal().max().item())
    apart = torch.corrcoef(samples[1].view(2, -1, 2)[:, :, 0])[0, 1]
    assert abs(apart) < 5 / math.sqrt(draws / 2)


@torch.no_grad()
def test_one_layers_local_noise_has_the_closed_form_mean_and_variance() -> None:
    head, draws = make_head((3,), lasting=False), 40_000
    x = torch.tensor([0.5, -1.0, 2.0, 1.0])  # with the constant
    (q,) = posterior_of(head)
    samples = head(x[:3].expand(draws, -1), head.draw(np.random.default_rng(0), draws))
    variance = q.variance @ x.square()
    assert ((samples.mean(0) - q.mean @ x).abs() < 5 * (variance / draws).sqrt()).all()
    torch.testing.assert_close(samples.var(0), variance, rtol=0.05, atol=0.0)


def test_scales_start_at_sigma0_over_the_root_of_a_layers_inputs() -> None:
    agent = build("bbq", VECTOR, Training(buffer_size=100, features=9), sigma0=0.6)
    for rho, inputs in zip(agent.online.head.rhos, (5, 9, 9), strict=True):
        torch.testing.assert_close(softplus(rho).data, torch.full_like(rho, 0.6 / math.sqrt(inputs)))


def test_rows_are_predicted_by_weights_of_their_own_and_the_mean_network_gives_targets() -> None:
    head = make_head()
    rng = np.random.default_rng(0)
    predict, select, evaluate = head.training_indices(head.draw(rng, 1)[0], rng, 32)
    assert predict.shape == (32, 11)
    assert len({row.numpy().tobytes() for row in predict}) == 32
    assert select is None
    assert evaluate is None


def test_means_and_scales_are_learned() -> None:
    agent = build("bbq", VECTOR)
    _, gradients = loss_and_gradients(agent, random_batch(VECTOR))
    assert all(gradients[f"head.rhos.{i}"].abs().max() > 0 for i in range(3))


def test_without_data_the_posterior_goes_to_the_prior() -> None:
    """With a divergence that outweighs the errors, scales become the prior's and means vanish."""
    training = Training(buffer_size=100, learning_rate=0.03, features=16)
    agent = build("bbq", VECTOR, training, kl_scale=1e6, prior_sigma=0.5)
    agent.replay.seen = 100
    batch = random_batch(VECTOR)
    for _ in range(400):
        agent.optimizer.clear()
        agent.loss(batch).backward()
        agent.optimizer.step()
    head = agent.online.head
    for i, (rho, std) in enumerate(zip(head.rhos, head.prior_stds, strict=True)):
        torch.testing.assert_close(softplus(rho).data, torch.full_like(rho, std), rtol=0.05, atol=0.0)
        assert head.mu(i).weight.abs().max() < 0.05
