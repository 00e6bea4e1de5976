"""The agent that explores out of the box: what it is made of, what switches it off, and that units do not matter."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import bdqn
from bdqn.bayes.sampled_backups import back_up
from bdqn.qlearning.acting import Actor
from bdqn.qlearning.boldness import BOLD, MODEST
from bdqn.replay.duplicates import Recurrence
from bdqn.storage.checkpoints import Checkpoints

SMALL = {"learning_starts": 100, "features": 16, "buffer_size": 2000, "prior_features": 64}
OFF = {"value_spread": 0.0, "refit_growth": 0.0, "prior_features": 0, "backup_sweeps": 0}


def returns_of(env: Any, decisions: int, **settings: Any) -> list[float]:
    returns: list[float] = []
    learner = bdqn.make("bdqn-explore", env, **settings)
    learner.learn(decisions, lambda _, step: returns.extend(e.raw_return for e in step.episodes))
    return returns


def test_with_every_change_switched_off_it_is_bayesian_dqn() -> None:
    shared = {"learning_starts": 100, "n_steps": 1, "buffer_size": 2000, "features": 16}
    plain, off = (
        bdqn.make(agent, "CartPole-v1", **shared, **own).learn(900).agent
        for agent, own in (("bdqn", {}), ("bdqn-explore", OFF))
    )
    for name, value in plain.online.state_dict().items():
        assert np.array_equal(value, off.online.state_dict()[name]), name
    assert plain.online.head.fitted


@pytest.mark.parametrize(
    "name", ["value_spread", "refit_growth", "prior_features", "backup_sweeps", "boldness", "adapt"]
)
def test_each_change_can_be_switched_off_alone(name: str) -> None:
    off = {name: False if name == "adapt" else 0}
    learner = bdqn.make("bdqn-explore", "CartPole-v1", **{**SMALL, **off}).learn(300)
    assert learner.agent.online.head.fitted


@pytest.mark.parametrize("acting", ["mean", "ucb", "epsilon-greedy"])
def test_it_can_act_without_draws(acting: str) -> None:
    learner = bdqn.make("bdqn-explore", "CartPole-v1", acting=acting, **SMALL).learn(300)
    assert learner.agent.online.head.fitted
    assert learner.agent.choices.bold is None


def test_a_fit_sees_all_of_the_buffer_as_transitions_that_differ() -> None:
    learner = bdqn.make("bdqn-explore", "bdqn/Grid-v0", env_kwargs={"size": 3}, **SMALL).learn(500)
    agent = learner.agent
    agent.last_layer.choice = replace(agent.last_layer.choice, batch_size=20)
    data = agent.last_layer._data(lambda: False)
    assert len(data.transitions.x) == 20  # a grid of 9 has 36 that differ, or fewer
    assert data.moments.count.sum() == data.transitions.count.sum() > 20
    agent.last_layer.choice = replace(agent.last_layer.choice, batch_size=100)
    assert agent.last_layer._data(lambda: False).moments.count.sum() == len(agent.replay) > 100


def test_a_key_and_a_door_are_found_with_the_defaults() -> None:
    returns = returns_of("bdqn/KeyDoor-v0", 2000, seed=2, env_kwargs={"width": 8})
    assert np.mean(returns[-10:]) > 0.7


class Scaled(gym.Wrapper[Any, Any, Any, Any]):
    """Rewards and observations counted in other units; the bounds of observations declared, or not."""

    def __init__(self, name: str, reward: float, observation: float, declared: bool, **options: Any) -> None:
        super().__init__(gym.make(f"bdqn/{name}-v0", **options))
        self.reward, self.by = reward, np.float32(observation)
        space = self.env.observation_space
        assert isinstance(space, gym.spaces.Box)
        bounds = (space.low * self.by, space.high * self.by) if declared else (-np.inf, np.inf)
        self.observation_space = gym.spaces.Box(*bounds, space.shape, np.float32)

    def reset(self, **options: Any) -> Any:
        obs, info = self.env.reset(**options)
        return obs * self.by, info

    def step(self, action: Any) -> Any:
        obs, reward, *rest = self.env.step(action)
        return obs * self.by, float(reward) * self.reward, *rest


PROBLEMS = {"Grid": {"size": 6}, "GridCost": {"size": 6}, "KeyDoor": {"width": 8}}


@cache
def scaled_returns(problem: str, *units: Any) -> list[float]:
    return returns_of(lambda: Scaled(problem, *units, **PROBLEMS[problem]), 1500, seed=1)


# Powers of two: other units round numbers anew, and two runs that differ in a last bit are as two seeds.
@pytest.mark.parametrize(
    "units",
    [(1 / 1024, 1, True), (1024, 1, True), (1, 1 / 1024, True), (1, 1024, True), (1 / 1024, 1024, False)],
    ids=["small rewards", "large rewards", "small observations", "large observations", "no declared bounds"],
)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_units_change_nothing(problem: str, units: tuple[float, float, bool]) -> None:
    reward, _, declared = units
    plain = scaled_returns(problem, 1, 1, declared)
    assert max(plain) > 0
    assert np.array_equal(np.array(scaled_returns(problem, *units)) / reward, plain)


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_resumed_run_continues_exactly(num_envs: int, tmp_path: Any) -> None:
    whole = bdqn.make("bdqn-explore", "bdqn/Grid-v0", num_envs=num_envs, **SMALL).learn(420)
    cut = bdqn.make("bdqn-explore", "bdqn/Grid-v0", num_envs=num_envs, **SMALL).learn(240)
    Checkpoints(tmp_path).save(cut)
    resumed = Checkpoints(tmp_path).load().learner.learn(180)
    for name, value in whole.agent.online.state_dict().items():
        assert np.array_equal(value, resumed.agent.online.state_dict()[name]), name
    assert np.array_equal(whole.agent.draws.acting, resumed.agent.draws.acting)
    assert whole.agent.metrics == resumed.agent.metrics


@pytest.mark.parametrize("num_envs", [1, 4])
def test_bold_draws_act_where_they_are_chosen_and_never_train(num_envs: int) -> None:
    seen = set()
    # At this gamma a segment has 20 decisions, so that kinds change within episodes, too.
    learner = bdqn.make("bdqn-explore", "bdqn/RiverSwim-v0", num_envs=num_envs, gamma=0.5, **SMALL)
    for _ in learner.steps(500):
        head, draws = learner.agent.online.head, learner.agent.draws
        if not head.fitted:
            continue
        bold, modest = ({row.numpy().tobytes() for row in pool} for pool in (head.bold_pool, head.pool))
        assert draws.training.numpy().tobytes() in modest
        for kind, acting in zip(draws.kinds, draws.acting, strict=True):
            assert acting.numpy().tobytes() in (bold if kind == "bold" else modest)
            seen.add(kind)
    assert seen == {"modest", "bold"}


def test_draws_that_leave_loops_see_more() -> None:
    """A stationary policy that comes back to where it was goes round in circles until the episode ends."""
    seen = {}
    for leaves in (True, False):
        learner = bdqn.make("bdqn-explore", "bdqn/Grid-v0", env_kwargs={"size": 24}, leave_loops=leaves, **SMALL)
        seen[leaves] = len({(step.next_obs.tobytes(), step.obs.tobytes()) for step in learner.steps(1500)})
    assert seen[True] > 1.3 * seen[False]


def stuck_in_a_corner(reward: float, recurs: bool = True, bumps: int = 5) -> Any:
    """A modest draw, then the mean, which bump into the same wall again and again, the first time with a reward."""
    learner = bdqn.make("bdqn-explore", "bdqn/Grid-v0", env_kwargs={"size": 3}, **SMALL).learn(300)
    draws = learner.agent.draws
    draws.boldness.recurrence = Recurrence(kinds=10, distinct=0.1 if recurs else 0.9)
    draws.boldness.kinds[:] = MODEST
    draws.renew()
    draws.start_episodes(np.array([0]))
    for gained in (reward, *[0.0] * (bumps - 1)):
        draws.advance(np.array([False]), np.array([gained]), np.zeros((1, 2), np.float32))
    return learner


def test_a_modest_draw_that_goes_round_in_circles_gives_way_to_the_mean() -> None:
    draws = stuck_in_a_corner(0.0, bumps=3).agent.draws
    assert draws.kinds == ("modest",)
    assert torch.equal(draws.acting[0], draws._head.mean_index)
    other = draws.apart(1, np.random.default_rng(0))
    other.load_state(draws.state(), torch.device("cpu"))
    assert torch.equal(other.acting[0], draws._head.mean_index)


def test_a_mean_that_goes_round_in_circles_gives_way_to_a_bold_draw_until_the_next_fit() -> None:
    draws = stuck_in_a_corner(0.0).agent.draws
    draws.fitted(draws.boldness.recurrence)
    assert draws.kinds == ("modest",)


def test_a_mean_that_goes_round_in_circles_gives_way_to_a_bold_draw() -> None:
    draws = stuck_in_a_corner(0.0).agent.draws
    assert draws.kinds == ("bold",)
    assert any(np.array_equal(draws.acting[0], bold) for bold in draws._head.bold_pool)
    assert draws.boldness.kinds.tolist() == [MODEST]  # which has this segment on its record
    while draws.boldness.kinds[0] == BOLD or draws.kinds == ("bold",):  # until a modest segment begins
        draws.advance(np.array([True]), np.array([0.0]), np.zeros((1, 2), np.float32))
    assert any(np.array_equal(draws.acting[0], modest) for modest in draws._head.pool)


@pytest.mark.parametrize(("reward", "recurs"), [(1.0, True), (0.0, False)])
def test_circles_that_pay_and_circles_by_accident_go_on(reward: float, recurs: bool) -> None:
    assert stuck_in_a_corner(reward, recurs).agent.draws.kinds == ("modest",)


def test_a_draw_that_has_given_way_does_so_after_a_resume() -> None:
    draws = stuck_in_a_corner(0.0).agent.draws
    other = draws.apart(1, np.random.default_rng(0))
    other.load_state(draws.state(), torch.device("cpu"))
    assert other.kinds == ("bold",)


@pytest.mark.parametrize(
    ("env", "unlike", "by_chance"),
    [("CartPole-v1", "uniform", True), ("CartPole-v1", "draws", False), ("bdqn/RiverSwim-v0", "uniform", False)],
)
def test_bold_segments_may_go_by_chance_where_nothing_recurs(env: str, unlike: str, by_chance: bool) -> None:
    always_bold = {"bold_decay": 0.0, "bold_unlike": unlike}
    learner = bdqn.make("bdqn-explore", env, **always_bold, **SMALL).learn(340)
    agent, obs = learner.agent, learner.envs.obs
    actor = Actor(agent, np.random.default_rng(0), greedy=False)
    for actions in (
        np.array([agent.act(obs)[0] for _ in range(200)]),
        np.array([actor.choose(actor.view(obs))[0] for _ in range(200)]),
    ):
        assert (70 < actions.sum() < 130) == by_chance
        assert (len(set(actions)) == 1) != by_chance


def test_where_chance_decides_bold_draws_stay_and_take_less_for_granted() -> None:
    """An action that failed so far may still succeed: RiverSwim's far end is reached by trying again."""
    learner = bdqn.make("bdqn-explore", "bdqn/RiverSwim-v0", seed=1, **SMALL).learn(300)
    agent = learner.agent
    data = agent.last_layer._data(lambda: False)
    assert 0.1 < data.transitions.chance < 0.5
    assert not agent.draws.boldness.recurrence.is_exact
    assert not any(agent.draws._loops.state()["next"])  # nobody asks whether draws repeat themselves

    def spread(chance: float) -> float:
        """Of the gap between two actions that were tried often, under bold draws."""
        head, rng = agent.online.head, np.random.default_rng(0)
        head.fit(data.moments, replace(data.transitions, chance=chance), rng)
        phi = agent.features(np.zeros(1, np.int64))
        return float(np.std([np.diff(head.forward(phi, draw)) for draw in head.bold_pool])) / head.value_scale

    assert spread(data.transitions.chance) > 3 * spread(0.0)


def test_the_mean_stays_within_the_returns_seen() -> None:
    learner = bdqn.make("bdqn-explore", "bdqn/Grid-v0", env_kwargs={"size": 3}, **SMALL).learn(1500)
    agent = learner.agent
    low, high = agent.last_layer._source.returns_seen()
    assert (low, high) == pytest.approx((0.0, 1.0 / agent.targets.reward_unit))
    assert agent.online.head.value_scale == high
    data = agent.last_layer._data(lambda: False)
    assert data.transitions.returns == (low, high)
    assert data.transitions.values(agent.online.head.posterior.mean).max() < 1.2 * high


def test_what_pays_more_in_the_long_run_is_chosen_past_a_time_limit() -> None:
    """Two states pay 1.5 and 2 a decision; episodes are cut short, so states are worth more than any return seen."""

    class TwoStates(gym.Env[Any, Any]):
        observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)

        def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
            self.at = self.elapsed = 0
            return 0, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            reward = (1.5, 2.0)[self.at] * (action == 0)
            self.at, self.elapsed = (self.at + action) % 2, self.elapsed + 1
            return self.at, reward, False, self.elapsed >= 20, {}

    learner = bdqn.make("bdqn-explore", TwoStates, gamma=0.95, **SMALL).learn(2000)
    assert learner.agent.view(np.array([0, 1])).mean.argmax(1).tolist() == [1, 0]


def test_fits_to_few_transitions_prepare_more_draws() -> None:
    head = bdqn.make("bdqn-explore", "bdqn/Grid-v0", env_kwargs={"size": 3}, **SMALL).learn(400).agent.online.head
    assert len({draw.numpy().tobytes() for draw in head.bold_pool}) == 30
    assert [head._affordable(rows) for rows in (0, 1000, 2000, 100_000)] == [(30, 100), (10, 100), (5, 50), (3, 10)]


@pytest.mark.parametrize(
    ("env", "when", "acting"),
    [
        ("bdqn/RiverSwim-v0", "always", "target"),
        ("bdqn/RiverSwim-v0", "recurring", "target"),
        ("CartPole-v1", "always", "target"),
        ("CartPole-v1", "recurring", "online"),
        ("CartPole-v1", "never", "online"),
    ],
)
def test_it_acts_by_the_features_of_the_last_fit(env: str, when: str, acting: str) -> None:
    learner = bdqn.make("bdqn-explore", env, act_as_fitted=when, **SMALL).learn(340)
    agent, obs = learner.agent, learner.envs.obs
    assert not agent.targets.in_sync  # trained since
    assert np.array_equal(agent.features(obs), getattr(agent, acting).features(agent.tensor(obs)).detach())


@pytest.mark.parametrize(
    ("env", "where", "used"),
    [
        ("bdqn/RiverSwim-v0", "recurring", True),
        ("CartPole-v1", "recurring", False),
        ("CartPole-v1", "always", True),
    ],
)
def test_prior_features_take_part_where_transitions_recur(env: str, where: str, used: bool) -> None:
    learner = bdqn.make("bdqn-explore", env, prior_where=where, **SMALL).learn(340)
    agent, obs = learner.agent, learner.envs.obs
    for network in (agent.online, agent.target):
        frozen = network.head.beside(network.features(agent.tensor(obs)))
        assert bool(frozen.any()) == used
    assert np.isfinite(agent.metrics["posterior/novelty"])  # known either way


@pytest.mark.parametrize(
    ("env", "where", "backed_up"),
    [("CartPole-v1", "always", True), ("CartPole-v1", "recurring", False), ("bdqn/RiverSwim-v0", "recurring", True)],
)
def test_backups_take_place_where_transitions_recur(
    env: str, where: str, backed_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[int] = []

    def counted(kinds: Any, transitions: Any, sweeps: int, tolerance: float) -> None:
        swept.append(sweeps)
        back_up(kinds, transitions, sweeps, tolerance)

    learner = bdqn.make("bdqn-explore", env, backup_where=where, **SMALL).learn(400)
    monkeypatch.setattr("bdqn.networks.heads.scale_free.back_up", counted)
    learner.learn(200)
    assert bool(swept) == backed_up


def test_fits_follow_the_growth_of_the_data() -> None:
    learner = bdqn.make("bdqn-explore", "CartPole-v1", **{**SMALL, "refit_growth": 0.5, "refit_most": 150})
    fitted: list[int] = []
    agent = learner.agent
    run = agent.last_layer.run
    agent.last_layer.run = lambda *a: (fitted.append(agent.steps), run(*a))[1]  # type: ignore[method-assign]
    learner.learn(700)
    assert fitted == [100, 150, 225, 338, 488, 638]  # 50 at least, half as much again, at most 150 later


def test_where_transitions_recur_news_brings_the_next_fit_forward() -> None:
    fitted: dict[float, list[int]] = {}
    for news in (0.0, 0.02):
        settings = {**SMALL, "refit_growth": 10.0, "refit_most": 2000, "refit_news": news}
        learner = bdqn.make("bdqn-explore", "bdqn/Grid-v0", env_kwargs={"size": 6}, **settings)
        agent, fitted[news] = learner.agent, []
        run = agent.last_layer.run
        agent.last_layer.run = lambda *a, run=run, agent=agent, at=fitted[news]: (at.append(agent.steps), run(*a))[1]
        learner.learn(2100)
    assert fitted[0.0] == [100, 1100]
    early = fitted[0.02]
    assert early[:2] == [100, 1100]  # at the first fit nothing was known to recur
    assert 3 <= len(early) < 15  # a grid of 36 has some 140 kinds of transition, and then there is no news
