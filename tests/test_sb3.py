"""Our agents are accepted, unchanged, by Stable-Baselines3's evaluation."""

from __future__ import annotations

import pytest

import bdqn

pytest.importorskip("stable_baselines3", reason="needs stable-baselines3, from the dev extra")


@pytest.mark.parametrize("deterministic", [True, False])
def test_evaluate_policy_runs_on_our_agent(deterministic: bool) -> None:
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    learner = bdqn.make("bdqn", "CartPole-v1", learning_starts=100, posterior_update_interval=100).learn(400)
    returns, lengths = evaluate_policy(
        learner,
        make_vec_env("CartPole-v1", n_envs=2, seed=0),
        n_eval_episodes=4,
        deterministic=deterministic,
        return_episode_rewards=True,
    )
    assert len(returns) == 4
    assert returns == [float(length) for length in lengths]  # CartPole pays 1 per decision
