"""A posterior for somebody else's network: what it takes, what it says, and what it refuses in a sentence."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import bdqn
from bdqn.attached.agents import q_source
from bdqn.attached.discount import GammaWarning
from bdqn.attached.posterior import AttachedPosterior
from bdqn.attached.sources import transitions_of
from bdqn.config.settings import SettingError
from bdqn.qlearning.calibration import NotCalibrated

GAMMA = 0.9
Arrays = dict[str, NDArray[Any]]


class CleanRLNetwork(nn.Module):
    """As in CleanRL's dqn.py: made for an environment, its layers below ``network``."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(inputs, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, actions)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)


def walk(rows: int = 2_000, seed: int = 0, ends: float = 0.0) -> Arrays:
    """Random decisions on a line: the action moves left or right, the reward is the place that is reached, and noise.

    A share of them ``ends`` the episode.
    """
    rng = np.random.default_rng(seed)
    obs = rng.uniform(-1, 1, (rows, 2)).astype(np.float32)
    action = rng.integers(2, size=rows)
    next_obs = np.clip(obs + np.where(action[:, None] == 1, 0.1, -0.1), -1, 1).astype(np.float32)
    reward = next_obs[:, 0] + rng.standard_normal(rows)
    return {"obs": obs, "action": action, "reward": reward, "next_obs": next_obs, "terminal": rng.random(rows) < ends}


def trained(network: nn.Module, data: Arrays, sweeps: int = 400) -> nn.Module:
    """A few hundred steps towards the fixed point at GAMMA."""
    columns = {name: torch.as_tensor(column) for name, column in data.items()}
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    for _ in range(sweeps):
        with torch.no_grad():
            ahead = GAMMA * network(columns["next_obs"]).amax(1) * ~columns["terminal"]
        q = network(columns["obs"]).gather(1, columns["action"][:, None])[:, 0]
        loss = (q - columns["reward"].float() - ahead).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


@pytest.fixture(scope="module")
def cleanrl() -> nn.Module:
    torch.manual_seed(0)
    return trained(CleanRLNetwork(2, 2), walk())


@pytest.fixture(scope="module")
def attached(cleanrl: nn.Module) -> AttachedPosterior:
    return bdqn.attach(cleanrl, walk(), gamma=GAMMA)


def test_a_cleanrl_network_answers_all_questions(attached: AttachedPosterior, cleanrl: nn.Module) -> None:
    obs = walk(50, seed=1)["obs"]
    q = attached.q_posterior(obs)
    assert q.mean.shape == q.std.shape == q.predictive_std.shape == (50, 2)
    assert (q.std > 0).all()
    assert (q.predictive_std > q.std).all()
    own = cleanrl(torch.as_tensor(obs)).detach().numpy()
    assert np.abs(q.mean - own).mean() < 0.1 * np.abs(own).mean()
    probabilities = attached.optimal_action_probabilities(obs)
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    assert attached.predict(obs)[0].tolist() == q.mean.argmax(1).tolist()
    assert attached.safe_action(obs, scale=3.0).tolist() == (q.mean - 3 * q.std).argmax(1).tolist()
    bound = q.mean - 1.2815515655446004 * q.std
    middle = float(np.median(bound)) + 1e-6
    assert 0 < (bound >= middle).mean() < 1
    np.testing.assert_array_equal(attached.safety(obs, threshold=middle, level=0.9).safe, bound >= middle)
    noisy = attached.safe_action(obs, scale=3.0, spread="predictive").tolist()
    assert noisy == (q.mean - 3 * q.predictive_std).argmax(1).tolist()
    assert attached.predict(obs, action_masks=[True, False])[0].tolist() == [0] * 50
    assert int(attached.predict(obs[0])[0]) == int(attached.predict(obs)[0][0])
    draws = attached.predict(np.repeat(obs[:1], 4_000, 0), deterministic=False)[0]
    np.testing.assert_allclose(np.mean(draws == 1), probabilities[0, 1], atol=0.04)


@pytest.mark.filterwarnings("ignore::bdqn.attached.discount.GammaWarning")  # it is not what is tested
def test_the_posterior_is_the_dense_formula_around_the_networks_own_weights(cleanrl: CleanRLNetwork) -> None:
    """w | data ~ N(W + (X'X/v + I/p)^-1 X' (y - X W) / v, (X'X/v + I/p)^-1), with its own v and p."""
    data = walk(ends=0.1)
    found = bdqn.attach(cleanrl, data, gamma=GAMMA, held_out=0.02)
    hidden, last = cleanrl.network[:-1], cleanrl.network[-1]
    with torch.no_grad():
        x = np.hstack([hidden(torch.as_tensor(data["obs"])).double().numpy(), np.ones((2_000, 1))])
        ahead = cleanrl(torch.as_tensor(data["next_obs"])).double().numpy().max(1)
        own = torch.cat([last.weight, last.bias[:, None]], 1).double().numpy()
    y = data["reward"] + GAMMA * ahead * ~data["terminal"]
    for action in (0, 1):
        noise_var, factor = found.posterior.noise_var[action], found.posterior.factor[action]
        precision = factor @ factor.T / noise_var
        # All blocks of 40 rows but one were fitted: that without which only the prior's diagonal remains.
        held = np.arange(2_000) // 40
        rests = {}
        for block in range(50):
            kept = np.flatnonzero((held != block) & (data["action"] == action))
            rest = precision - x[kept].T @ x[kept] / noise_var
            rests[np.abs(rest - np.diag(np.diag(rest))).max()] = kept, rest
        off_diagonal = min(rests)
        kept, rest = rests[off_diagonal]
        assert off_diagonal < 1e-6 * np.abs(precision).max()
        np.testing.assert_allclose(np.diag(rest), rest[0, 0], rtol=0.1)
        shift = np.linalg.solve(precision, x[kept].T @ (y[kept] - x[kept] @ own[action]) / noise_var)
        np.testing.assert_allclose(found.posterior.mean[action], own[action] + shift, atol=1e-4)


def test_a_pair_of_features_and_layer_is_the_network_of_both(cleanrl: CleanRLNetwork) -> None:
    pair = (cleanrl.network[:-1], cleanrl.network[-1])
    one, other = (bdqn.attach(net, walk(), gamma=GAMMA) for net in (pair, cleanrl))
    np.testing.assert_array_equal(one.posterior.mean, other.posterior.mean)


@pytest.mark.filterwarnings("ignore::bdqn.attached.discount.GammaWarning")  # it is not what is tested
def test_a_plain_module_with_dropout_and_no_bias_is_asked_as_it_is_used() -> None:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Dropout(0.5), nn.Linear(32, 2, bias=False)).train()
    found = bdqn.attach(network, walk(), gamma=0.0)
    assert found.posterior.dim == 32
    obs = walk(3)["obs"]
    np.testing.assert_array_equal(found.q_posterior(obs).mean, found.q_posterior(obs).mean)
    assert network.training, "the network itself is left as it was"
    assert not network[0]._forward_hooks
    assert network[0].weight.requires_grad


@pytest.mark.filterwarnings("ignore::bdqn.attached.discount.GammaWarning")  # it is not what is tested
def test_it_does_not_follow_further_training(cleanrl: CleanRLNetwork) -> None:
    network = trained(CleanRLNetwork(2, 2), walk(), sweeps=300)
    found = bdqn.attach(network, walk(), gamma=GAMMA)
    before = found.q_posterior([0.0, 0.0]).mean
    trained(network, walk(), sweeps=5)
    np.testing.assert_array_equal(found.q_posterior([0.0, 0.0]).mean, before)


def test_it_is_surer_where_the_data_are(attached: AttachedPosterior) -> None:
    seen, unseen = attached.q_posterior([0.2, -0.3]), attached.q_posterior([6.0, -6.0])
    assert (unseen.std > 5 * seen.std).all()


def test_more_data_make_it_surer(cleanrl: nn.Module) -> None:
    few, many = (bdqn.attach(cleanrl, walk(rows), gamma=GAMMA) for rows in (300, 6_000))
    assert (many.q_posterior([0.2, -0.3]).std < 0.6 * few.q_posterior([0.2, -0.3]).std).all()


def test_an_action_that_was_never_taken_is_the_least_sure(cleanrl: nn.Module) -> None:
    data = walk()
    left = data["action"] == 0
    found = bdqn.attach(cleanrl, {name: column[left] for name, column in data.items()}, gamma=GAMMA)
    assert found.transitions_per_action[1] == 0
    q = found.q_posterior(data["obs"][:100])
    assert (q.std[:, 1] > 5 * q.std[:, 0]).all()
    assert (q.std[:, 1] < 20 * np.abs(q.mean).max()).all()  # it is the prior's, which has the size of the values
    own = cleanrl(torch.as_tensor(data["obs"][:100])).detach().numpy()
    np.testing.assert_allclose(q.mean[:, 1], own[:, 1], atol=1e-5)  # and its value is still the network's
    assert np.isfinite(q.predictive_std).all()
    assert (q.predictive_std > q.std).all()


def test_intervals_hold_gaussian_targets_as_often_as_they_say(attached: AttachedPosterior) -> None:
    coverage = attached.calibration.coverage
    assert attached.calibration.rows == 400
    assert coverage[0.5] == pytest.approx(0.5, abs=0.09)
    assert coverage[0.9] == pytest.approx(0.9, abs=0.06)
    assert coverage[0.99] > 0.95
    assert str(attached.calibration).endswith("of 400 held-out targets: calibrated")


@pytest.mark.filterwarnings("ignore::bdqn.attached.discount.GammaWarning")  # it is not what is tested
def test_intervals_of_returns_are_refused(attached: AttachedPosterior) -> None:
    with pytest.raises(NotCalibrated, match=r"What bdqn\.attach returns has no intervals of returns"):
        attached.q_posterior(np.zeros(2)).interval()


def test_calibration_notices_tails_that_a_gaussian_has_not(cleanrl: nn.Module) -> None:
    """A reward of 50 in one transition of 20: the noise is large on average, so narrow intervals hold nearly all."""
    data = walk()
    data["reward"] = data["reward"] + np.where(np.arange(2_000) % 20 == 0, 50.0, 0.0)
    calibration = bdqn.attach(cleanrl, data, gamma=GAMMA).calibration
    assert calibration.coverage[0.5] > 0.9
    assert calibration.coverage[0.99] == pytest.approx(0.95, abs=0.01)


@pytest.mark.filterwarnings("ignore::bdqn.attached.discount.GammaWarning")  # it is not what is tested
def test_double_q_lets_the_target_network_evaluate(cleanrl: CleanRLNetwork) -> None:
    """A target network whose values are 100 higher raises the targets by gamma times that, except at an end."""
    higher = CleanRLNetwork(2, 2)
    higher.load_state_dict(cleanrl.state_dict())
    with torch.no_grad():
        higher.network[-1].bias += 100
    data = walk()
    plain = bdqn.attach(cleanrl, data, gamma=GAMMA)
    double = bdqn.attach(cleanrl, data, gamma=GAMMA, target_network=higher)
    raised = (double.q_posterior([0.1, 0.1]).mean - plain.q_posterior([0.1, 0.1]).mean).mean()
    assert raised == pytest.approx(GAMMA * 100, rel=0.01)


# --- an environment, a data set -----------------------------------------------------------------------------------


class Line(gym.Env[NDArray[np.float32], int]):
    """Two steps to the right end it; a wanderer is cut off after five."""

    observation_space = gym.spaces.Box(-5, 5, (2,), np.float32)
    action_space = gym.spaces.Discrete(2, start=1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.age = 0, 0
        return self._obs(), {}

    def _obs(self) -> NDArray[np.float32]:
        return np.array([self.place, 0], np.float32)

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        assert action in (1, 2)
        self.place, self.age = self.place + (1 if action == 2 else -1), self.age + 1
        return self._obs(), float(self.place), self.place == 2, self.age == 5, {}


@pytest.mark.filterwarnings("ignore::bdqn.attached.discount.GammaWarning")  # it is not what is tested
def test_an_environment_is_played_in_by_the_networks_policy() -> None:
    torch.manual_seed(0)
    network = nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.zero_()
        network.bias.copy_(torch.tensor([0.0, 1.0]))  # always right
    found = bdqn.attach((nn.Identity(), network), Line, gamma=0.0, samples=1_000, epsilon=0.2)
    assert found.transitions_per_action[1] == pytest.approx(0.9 * 800, rel=0.06)
    assert found.transitions_per_action.sum() == 800


def test_a_time_limit_is_no_end_and_successors_are_the_last_observations() -> None:
    source = q_source(nn.Sequential(nn.Linear(2, 2)))
    data = transitions_of(Line, source, samples=500, epsilon=1.0, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(data.terminal, data.next_obs[:, 0] == 2)
    np.testing.assert_array_equal(data.next_obs[:, 0] - data.obs[:, 0], np.where(data.action == 1, 1, -1))


@pytest.mark.filterwarnings("ignore::bdqn.attached.discount.GammaWarning")  # it is not what is tested
def test_a_minari_data_set(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, cleanrl: nn.Module) -> None:
    """One whose second episode was cut off by a time limit."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    minari = pytest.importorskip("minari", reason="needs minari, from the extra minari")
    pytest.importorskip("h5py", reason="needs h5py, from the extra minari")
    from minari.data_collector import EpisodeBuffer

    buffers, rng = [], np.random.default_rng(0)
    for cut in (False, True):
        ends = [i == 149 for i in range(150)]
        buffers.append(
            EpisodeBuffer(
                observations=list(rng.standard_normal((151, 2)).astype(np.float32)),
                actions=list(rng.integers(2, size=150)),
                rewards=list(rng.standard_normal(150)),
                terminations=[end and not cut for end in ends],
                truncations=[end and cut for end in ends],
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its authors and a description are not given
        dataset = minari.create_dataset_from_buffers(
            "bdqn/walk-v0", buffers, observation_space=Line.observation_space, action_space=gym.spaces.Discrete(2)
        )
    data = transitions_of(dataset, q_source(cleanrl), samples=0, epsilon=0, rng=np.random.default_rng(0))
    assert len(data) == 300
    assert np.flatnonzero(data.terminal).tolist() == [149]
    seen = [np.array(buffer.observations) for buffer in buffers]
    np.testing.assert_array_equal(data.obs, np.concatenate([part[:-1] for part in seen]))
    np.testing.assert_array_equal(data.next_obs, np.concatenate([part[1:] for part in seen]))
    found = bdqn.attach(cleanrl, dataset, gamma=GAMMA)
    assert found.transitions_per_action.sum() + found.calibration.rows == 300


# --- what is refused ----------------------------------------------------------------------------------------------


def one_sentence(error: pytest.ExceptionInfo[Exception]) -> bool:
    return "\n" not in str(error.value)


class Dueling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value, self.advantage = nn.Linear(2, 1), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.value(x) + self.advantage(x)


@pytest.mark.parametrize(
    "network",
    [nn.Sequential(nn.Linear(2, 2), nn.ReLU()), Dueling(), nn.Identity()],
    ids=["a ReLU at the end", "dueling", "no linear layer at all"],
)
def test_a_network_that_does_not_end_with_a_linear_layer_is_refused(network: nn.Module) -> None:
    with torch.no_grad():  # a ReLU that changes something
        for parameter in network.parameters():
            parameter.fill_(-1.0)
    with pytest.raises(ValueError, match="does not end with a linear layer") as error:
        bdqn.attach(network, walk(), gamma=GAMMA)
    assert one_sentence(error)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"obs": np.zeros((2_000, 3), np.float32)}, r"same shape, not \(2000, 3\) and \(2000, 2\)"),
        ({"reward": np.zeros(1_999)}, r"reward must have shape \(2000,\), one for each row of obs, not \(1999,\)"),
        ({"action": np.full(2_000, 2)}, "hold action 2, but the network has Q-values of 2 actions"),
        ({"action": np.full(2_000, 0.5)}, "whole numbers"),
        ({"reward": np.full(2_000, np.nan)}, "not finite"),
    ],
)
def test_wrong_shapes_and_values_are_named(cleanrl: nn.Module, change: Arrays, says: str) -> None:
    with pytest.raises(ValueError, match=says) as error:
        bdqn.attach(cleanrl, walk() | change, gamma=GAMMA)
    assert one_sentence(error)


def test_a_network_for_other_observations_is_named() -> None:
    with pytest.raises(ValueError, match=r"cannot take the transitions' observations, of shape \(2,\)") as error:
        bdqn.attach(CleanRLNetwork(4, 2), walk(), gamma=GAMMA)
    assert one_sentence(error)


def test_an_observation_of_another_shape_is_named(attached: AttachedPosterior) -> None:
    with pytest.raises(ValueError, match=r"shape \(2,\) \(or a batch of them\), not \(3,\)"):
        attached.q_posterior([0.0, 0.0, 0.0])


def test_too_few_transitions_are_refused(cleanrl: nn.Module) -> None:
    with pytest.raises(SettingError, match=r"^199 transitions are too few .* at least 200\.$"):
        bdqn.attach(cleanrl, walk(199), gamma=GAMMA)


def test_other_arguments_that_cannot_be_meant(cleanrl: nn.Module) -> None:
    for arguments, says in (
        ({}, "gamma is needed"),
        ({"gamma": 99}, "gamma must lie between 0 and 1"),
        ({"gamma": 0.9, "held_out": 1.0}, "held_out must lie between"),
        ({"gamma": 0.9, "prior_spread": 0.0}, "prior_spread must be a positive number"),
    ):
        with pytest.raises(SettingError, match=says):
            bdqn.attach(cleanrl, walk(), **arguments)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="have no terminal"):
        bdqn.attach(cleanrl, {name: column for name, column in walk().items() if name != "terminal"}, gamma=GAMMA)
    with pytest.raises(TypeError, match="not a list"):
        bdqn.attach(cleanrl, [1, 2], gamma=GAMMA)
    with pytest.raises(SettingError, match="There are no transitions"):
        bdqn.attach(cleanrl, gamma=GAMMA)
    with pytest.raises(TypeError, match="not the class CleanRLNetwork"):
        bdqn.attach(CleanRLNetwork, walk(), gamma=GAMMA)


@pytest.mark.parametrize("wrong", [0.5, 0.75, 0.999])
def test_a_gamma_that_the_networks_values_speak_against_is_doubted(cleanrl: nn.Module, wrong: float) -> None:
    with pytest.warns(GammaWarning, match=f"gamma={wrong:g} does not fit the network's own values") as record:
        bdqn.attach(cleanrl, walk(), gamma=wrong)
    assert "\n" not in str(record[0].message)
    assert ("train it further" in str(record[0].message)) == (wrong > GAMMA)
