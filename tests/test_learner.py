"""The learner as a user meets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import bdqn
from bdqn.agents import AGENTS
from bdqn.config.settings import SettingError, settings_of
from bdqn.runs.evaluation import evaluate
from bdqn.runs.playback import record
from support.probes import MatchingAction, ObservedReward

QUICK: dict[str, Any] = {"learning_starts": 100, "buffer_size": 2000, "features": 16, "target_update_interval": 100}
QUICK_POSTERIOR: dict[str, Any] = {**QUICK, "posterior_update_interval": 100, "posterior_batch_size": 500}


@pytest.fixture(scope="module")
def cartpole() -> bdqn.Learner:
    return bdqn.make("bdqn", "CartPole-v1", seed=3, **QUICK_POSTERIOR).learn(600)


def observations(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(scale=0.1, size=(count, 4)).astype(np.float32)


def test_learning_goes_on_where_it_stopped() -> None:
    at_once, in_parts = (bdqn.make("bdqn", "CartPole-v1", seed=1, **QUICK_POSTERIOR) for _ in range(2))
    at_once.learn(500)
    in_parts.learn(201).learn(299)
    assert in_parts.num_timesteps == 500
    for a, b in zip(at_once.agent.online.parameters(), in_parts.agent.online.parameters(), strict=True):
        assert torch.equal(a, b)


def test_same_seed_same_bytes_other_seed_other_bytes() -> None:
    runs = [bdqn.make("bdqn", "CartPole-v1", seed=seed, **QUICK_POSTERIOR).learn(500) for seed in (1, 1, 2)]
    first, again, other = (run.agent.online.head.weights for run in runs)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_global_generators_neither_matter_nor_change() -> None:
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    bdqn.make("bdqn", "CartPole-v1", **QUICK_POSTERIOR).learn(300)
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert (np.random.get_state()[1] == numpy_before).all()  # noqa: NPY002


def test_a_callback_sees_every_step_and_can_stop() -> None:
    seen = []
    learner = bdqn.make("ddqn", "CartPole-v1", **QUICK)
    learner.learn(500, callback=lambda learner, step: seen.append(learner.num_timesteps) or len(seen) < 40)
    assert seen == list(range(1, 41))


def test_prediction_of_one_observation_and_of_a_batch_agree(cartpole: bdqn.Learner) -> None:
    batch = observations(6)
    actions, state = cartpole.predict(batch)
    assert state is None
    assert actions.tolist() == [int(cartpole.predict(row)[0]) for row in batch]
    assert actions.tolist() == cartpole.q_values(batch).argmax(1).tolist()


def test_an_undeterministic_prediction_is_a_thompson_draw(cartpole: bdqn.Learner) -> None:
    obs = observations(1)[0]
    probabilities = cartpole.optimal_action_probabilities(obs, samples=20_000)
    actions, _ = cartpole.predict(np.repeat(obs[None], 4000, axis=0), deterministic=False)
    np.testing.assert_allclose(np.mean(actions == 1), probabilities[1], atol=0.03)


def test_predicting_does_not_disturb_learning() -> None:
    watched, alone = (bdqn.make("bdqn", "CartPole-v1", seed=1, **QUICK_POSTERIOR) for _ in range(2))

    def look(learner: bdqn.Learner, step: Any) -> None:
        learner.predict(step.obs, deterministic=False)

    watched.learn(300, callback=look)
    alone.learn(300)
    assert torch.equal(watched.agent.online.head.weights, alone.agent.online.head.weights)


def test_the_posterior_has_a_mean_and_two_spreads_per_action(cartpole: bdqn.Learner) -> None:
    batch = observations(5)
    q = cartpole.q_posterior(batch)
    assert q.mean.shape == q.std.shape == q.predictive_std.shape == (5, 2)
    assert (q.std > 0).all()
    assert (q.predictive_std > q.std).all()
    np.testing.assert_allclose(q.mean, cartpole.q_values(batch), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(cartpole.q_posterior(batch[2]).std, q.std[2], rtol=1e-5)


def test_the_agent_is_surer_where_it_has_been() -> None:
    learner = bdqn.make("bdqn", MatchingAction, seed=0, **QUICK_POSTERIOR).learn(800)
    seen, unseen = learner.q_posterior([1.0, 0.0]), learner.q_posterior([30.0, -30.0])
    assert (unseen.std > 2 * seen.std).all()


def test_probabilities_of_being_optimal_sum_to_one_and_repeat(cartpole: bdqn.Learner) -> None:
    batch = observations(4)
    probabilities = cartpole.optimal_action_probabilities(batch)
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    np.testing.assert_array_equal(probabilities, cartpole.optimal_action_probabilities(batch))


def test_safe_actions_follow_their_criterion(cartpole: bdqn.Learner) -> None:
    obs = observations(50)
    q = cartpole.q_posterior(obs)
    assert cartpole.safe_action(obs, scale=3.0).tolist() == (q.mean - 3 * q.std).argmax(1).tolist()
    noisy = cartpole.safe_action(obs, scale=3.0, spread="predictive").tolist()
    assert noisy == (q.mean - 3 * q.predictive_std).argmax(1).tolist()
    assert int(cartpole.safe_action(obs[0], "cvar", alpha=0.1)) in (0, 1)
    assert int(cartpole.safe_action(obs[0], "probability", threshold=1.0)) in (0, 1)
    with pytest.raises(SettingError, match="did you mean cvar"):
        cartpole.safe_action(obs, "cvarr")
    with pytest.raises(ValueError, match=r"criterion 'probability' needs threshold=\.\.\., in the unit of"):
        cartpole.safe_action(obs, "probability")
    with pytest.raises(ValueError, match="criterion 'lcb' takes scale, not 'threshold'"):
        cartpole.safe_action(obs, threshold=1.0)


@pytest.mark.parametrize("device", ["meta", "nonsense"])
def test_a_device_that_cannot_be_used_is_refused_at_once(device: str) -> None:
    with pytest.raises(SettingError, match=f"^device '{device}' cannot be used here, as cpu can"):
        bdqn.make("ddqn", "CartPole-v1", device=device)


def test_settings_by_the_names_of_other_libraries_are_answered_with_ours() -> None:
    for name, answer in {"lr": "did you mean learning_rate", "verbose": "callback", "total_timesteps": "learn"}.items():
        with pytest.raises(SettingError, match=f"ddqn has no setting '{name}'; .*{answer}"):
            bdqn.make("ddqn", "CartPole-v1", **{name: 1})


def test_an_agent_without_posterior_says_so() -> None:
    learner = bdqn.make("ddqn", "CartPole-v1", **QUICK)
    with pytest.raises(TypeError, match="ddqn keeps no posterior"):
        learner.q_posterior(observations(1))
    assert learner.q_values(observations(3)).shape == (3, 2)


def test_an_observation_of_the_wrong_shape_is_named(cartpole: bdqn.Learner) -> None:
    with pytest.raises(ValueError, match=r"shape \(4,\).*not \(3,\)"):
        cartpole.predict(np.zeros(3))


@pytest.mark.parametrize("agent", ["ddqn", "bdqn"])
def test_a_saved_agent_believes_the_same(agent: str, tmp_path: Path) -> None:
    settings = QUICK_POSTERIOR if agent == "bdqn" else QUICK
    learner = bdqn.make(agent, "CartPole-v1", seed=5, num_envs=2, **settings).learn(400)
    learner.save(tmp_path / "agent")
    loaded = bdqn.load(tmp_path / "agent")
    batch = observations(5)
    np.testing.assert_array_equal(loaded.q_values(batch), learner.q_values(batch))
    if agent == "bdqn":
        np.testing.assert_array_equal(loaded.q_posterior(batch).std, learner.q_posterior(batch).std)
    assert loaded.num_timesteps == 400
    assert loaded.configuration == learner.configuration
    loaded.learn(300)
    assert loaded.num_timesteps == 700


def test_saving_does_not_overwrite_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("months of work")
    with pytest.raises(FileExistsError, match="not a saved agent"):
        bdqn.make("ddqn", "CartPole-v1", **QUICK).save(tmp_path)


def test_loading_asks_for_what_a_file_cannot_hold(tmp_path: Path) -> None:
    own = torch.nn.Sequential(torch.nn.Linear(2, 7), torch.nn.Tanh())
    learner = bdqn.make("bdqn", MatchingAction, network=own, **QUICK_POSTERIOR).learn(300)
    learner.save(tmp_path / "agent")
    with pytest.raises(SettingError, match="env="):
        bdqn.load(tmp_path / "agent")
    with pytest.raises(SettingError, match="network="):
        bdqn.load(tmp_path / "agent", env=MatchingAction)
    loaded = bdqn.load(tmp_path / "agent", env=MatchingAction, network=own)
    np.testing.assert_array_equal(loaded.q_values([1.0, 0.0]), learner.q_values([1.0, 0.0]))
    assert learner.agent.online.head.dim == 8
    with pytest.raises(FileNotFoundError, match="neither a saved agent nor a run"):
        bdqn.load(tmp_path)


@pytest.mark.parametrize("env", ["FrozenLake-v1", "Acrobot-v1", MatchingAction, ObservedReward()])
@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_runs_on_discrete_flat_and_user_written_environments(agent: str, env: Any) -> None:
    has_refits = "posterior_batch_size" in settings_of(AGENTS[agent].settings)
    learner = bdqn.make(agent, env, **(QUICK_POSTERIOR if has_refits else QUICK)).learn(260)
    assert learner.num_timesteps == 260
    obs, _ = learner.make_env().reset(seed=0)
    assert learner.predict(obs)[0] in range(learner.agent.num_actions)


class Shifted(gym.Env[int, int]):
    """Observations and actions that do not count from zero."""

    observation_space = spaces.Discrete(3, start=5)
    action_space = spaces.Discrete(2, start=-1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return int(self.np_random.integers(5, 8)), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert action in (-1, 0)
        return 5, float(action), True, False, {}


def test_spaces_that_do_not_start_at_zero() -> None:
    learner = bdqn.make("bdqn", Shifted, **QUICK_POSTERIOR).learn(400)
    assert learner.predict(7)[0] == 0
    assert learner.predict([5, 6, 7])[0].tolist() == [0, 0, 0]
    assert learner.safe_action(6) == 0
    assert learner.envs.obs[0] in Shifted.observation_space
    first = record(learner, seed=1, max_steps=1, greedy=True)
    seen = int(first.observations[0].argmax()) + 5
    assert first.actions == ("action -1", "action 0")
    np.testing.assert_allclose(first.mean[0], learner.q_posterior(seen).mean)
    assert first.std is not None
    np.testing.assert_allclose(first.std[0], learner.q_posterior(seen).std)


class Continuous(gym.Env[np.ndarray, np.ndarray]):
    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Box(-1, 1, (1,))


class Labelled(gym.Env[Any, int]):
    observation_space = spaces.Dict({"position": spaces.Text(2)})
    action_space = spaces.Discrete(2)


@pytest.mark.parametrize(
    ("env", "says"), [(Continuous, "MultiBinary actions"), (Labelled, "observes 'position'"), ("Pendulum-v1", "Box")]
)
def test_environments_it_cannot_act_in_are_refused_in_a_sentence(env: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says) as refusal:
        bdqn.make("bdqn", env)
    assert "\n" not in str(refusal.value)


def test_names_that_do_not_exist_suggest_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean CartPole-v1"):
        bdqn.make("bdqn", "CartPoll-v1")
    with pytest.raises(SettingError, match="did you mean bdqn"):
        bdqn.make("bdqm", "CartPole-v1")
    with pytest.raises(SettingError, match="learning_rate"):
        bdqn.make("bdqn", "CartPole-v1", learningrate=1e-3)
    with pytest.raises(SettingError, match="did you mean"):
        bdqn.make("bdqn", "CartPole-v1", preset="papper")


def test_an_instance_serves_one_environment_only() -> None:
    with pytest.raises(SettingError, match="give a function"):
        bdqn.make("bdqn", MatchingAction(), num_envs=2)


def test_a_replay_memory_that_cannot_fit_is_refused_with_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    class Memory:
        available = 100_000_000

    monkeypatch.setattr("psutil.virtual_memory", lambda: Memory)
    with pytest.raises(SettingError, match="set buffer_size to at most") as refusal:
        bdqn.make("bdqn", "CartPole-v1", buffer_size=10_000_000)
    fits = int(str(refusal.value).split()[-1].rstrip(".").replace(",", ""))
    bdqn.make("bdqn", "CartPole-v1", buffer_size=fits)


def test_an_atari_protocol_may_cut_evaluation_episodes_sooner() -> None:
    learner = bdqn.make("ddqn", "ALE/Pong-v5", protocol="nature", buffer_size=100)
    training, evaluation = learner.make_env(), learner.make_env(evaluation=True)
    assert training.unwrapped.protocol.max_episode_frames == 0
    assert evaluation.unwrapped.protocol.max_episode_frames == 18_000


def test_a_loaded_agent_waits_for_its_memory_to_fill_before_it_learns_again(tmp_path: Path) -> None:
    learner = bdqn.make("bdqn", "CartPole-v1", seed=5, **QUICK_POSTERIOR).learn(400)
    learner.save(tmp_path / "agent")
    loaded = bdqn.load(tmp_path / "agent")
    weights = loaded.agent.online.head.weights.clone()
    loaded.learn(90)  # less than learning_starts
    assert torch.equal(loaded.agent.online.head.weights, weights)
    loaded.learn(200)
    assert not torch.equal(loaded.agent.online.head.weights, weights)


def test_the_random_agent_predicts_at_random() -> None:
    actions, _ = bdqn.make("random", "CartPole-v1", **QUICK).predict(observations(60))
    assert set(actions.tolist()) == {0, 1}


def test_a_function_that_gives_the_same_environment_again_is_refused() -> None:
    env = gym.make("CartPole-v1")
    with pytest.raises(SettingError, match="one environment twice"):
        bdqn.make("ddqn", lambda: env, num_envs=2)
    learner = bdqn.make("ddqn", lambda: env)
    with pytest.raises(SettingError, match="one environment twice"):
        evaluate(learner, 1)
