"""A run that was cut and resumed ends as the one that never stopped, bit for bit.

Everything is compared by SHA-256: weights, optimizer, target network, posterior and draws, replay memory, counters,
generators, environments, and the run's files. Cuts lie before, at and after the first update, a copy to the target
network and a refit, in the middle of episodes, and at random.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import bdqn
from bdqn.agents import AGENTS
from bdqn.cli import main
from bdqn.config.settings import settings_of
from bdqn.envs import Source
from bdqn.learner import Learner
from bdqn.storage.checkpoints import Restored
from support.devices import on_each_device
from support.fingerprints import fingerprint
from support.processes import elsewhere

START, SYNC, REFIT, UPDATE = 24, 20, 28, 4  # decisions; the last three are counted from the first
EVENTS = [START, START + UPDATE, START + SYNC, START + REFIT]  # first fit, first update, copy to the target, refit
TOTAL = 90


@dataclass(frozen=True)
class Case:
    """One training; rings of 60 frames, so that they wrap."""

    agent: str
    env: str
    num_envs: int = 1
    settings: dict[str, Any] = field(default_factory=dict)
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    device: str = "cpu"

    def make(self, source: Source | None = None) -> Learner:
        common = {
            "learning_starts": START,
            "buffer_size": 60,
            "features": 16,
            "target_update_interval": SYNC,
            "train_freq": UPDATE,
            "batch_size": 16,
            "reward_scaling": True,
        }
        has_refits = "posterior_batch_size" in settings_of(AGENTS[self.agent].settings)
        refits = {"posterior_update_interval": REFIT, "posterior_batch_size": 40} if has_refits else {}
        return bdqn.make(
            self.agent,
            source or self.env,
            seed=3,
            num_envs=self.num_envs,
            env_kwargs=self.env_kwargs,
            device=self.device,
            **{**common, **refits, **self.settings},
        )

    def __str__(self) -> str:
        return "-".join([self.agent, self.env.split("/")[-1], str(self.num_envs), *map(str, self.settings.values())])


FAST_DRAWS = {"redraw": "steps", "sample_interval": 17, "acting_sample_interval": 7, "loss_head": "draw"}
CASES = [
    Case("random", "CartPole-v1", 3),
    Case("dqn", "CartPole-v1", 1, {"optimizer": "rmsprop"}),
    Case("bdqn", "CartPole-v1", 3, {"optimizer": "rmsprop", **FAST_DRAWS}),
    Case("bdqn", "CartPole-v1", 1, {"acting": "ucb", "noise": "inverse-gamma"}),
    Case("bdqn", "CartPole-v1", 3, {"acting": "epsilon-greedy", "exploration_decay_steps": 300}),
    Case("bdqn", "MinAtar/Breakout-v1", 3),
    Case("ddqn", "MinAtar/Seaquest-v1", 1, {"optimizer": "rmsprop"}),
    Case("bdqn", "bdqn/DeepSea-v0", 3, env_kwargs={"size": 6, "stochastic": True}),
    Case("dqn", "FrozenLake-v1", 3, {"optimizer": "rmsprop"}),
    Case("bootstrapped", "CartPole-v1", 3, {"prior_scale": 1.0}),
    Case("noisy", "CartPole-v1"),
    Case("bbq", "CartPole-v1", 3),
    Case("ls-dqn", "CartPole-v1", 3, {"solver": "lstd"}),
    Case("bdqn", "MinAtar/Breakout-v1", 1, {"batch_norm": True, "initialisation": "normal"}),
    Case("bbq", "MinAtar/Breakout-v1", 1, {"redraw": "step"}),
    Case("dqn-counts", "CartPole-v1", 3, {"n_steps": 3}),
    Case("dqn-counts", "FrozenLake-v1"),
    Case("dqn-cts", "MinAtar/Breakout-v1", 2),
    Case("dropout", "CartPole-v1", 3, {"redraw": "episode"}),
    Case("ls-dqn", "CartPole-v1", 1, {"n_steps": 3}),
    Case("bdqn", "CartPole-v1", 3, {"last_layer": "gradient-prior", "gram_decay": 0.5, "n_steps": 3}),
    Case(
        "bdqn", "CartPole-v1", 1, {"posterior_data": "minibatches", "evaluate_head": "second-draw", "prior_scale": 1.0}
    ),
    Case("bdqn", "CartPole-v1", 3, {"stored_completely": 5, "stored_segment": 3, "n_steps": 3}),
    Case("bdqn", "bdqn/Flood-v0", 1, {"posterior_parts": 2, "part_rows": 5, "stored_completely": 9}, {"way": 3}),
]


def random_cuts(case: Case, count: int, total: int = TOTAL, seed: int = 0) -> list[int]:
    rng = np.random.default_rng([seed, *str(case).encode()])
    return sorted(int(cut) for cut in rng.choice(np.arange(1, total), count, replace=False))


def learn(learner: Learner, total: int) -> Iterator[None]:
    """Learn up to ``total`` decisions, and ask now and then for an action, which has a generator of its own."""
    for _ in learner.steps(total - learner.num_timesteps):
        if learner.num_timesteps % 9 == 0:
            learner.predict(learner.envs.obs, deterministic=False)
        yield


def learned(learner: Learner, total: int) -> Learner:
    for _ in learn(learner, total):
        pass
    return learner


def save_at(learner: Learner, cuts: Iterable[int], total: int, root: Path) -> Iterator[Path]:
    """Learn, saving at each cut in a directory of its own: with several environments, at the first step to pass it."""
    due = sorted({min(-(-cut // learner.envs.num_envs) * learner.envs.num_envs, total) for cut in cuts})
    for _ in learn(learner, total):
        if due and learner.num_timesteps == due[0]:
            folder = root / str(due.pop(0))
            bdqn.Checkpoints(folder).save(learner)
            yield folder
    assert not due


def resume(folder: Path, total: int, source: Source | None = None, device: str = "cpu") -> Learner:
    """A new learner from a checkpoint, exactly; then it learns on."""
    restored = bdqn.Checkpoints(folder).load(source, device=device)
    assert (restored.restarted, restored.replay, restored.damaged, restored.changed) == ({}, True, (), ())
    return learned(restored.learner, total)


def compare_cuts(case: Case, cuts: Iterable[int], root: Path, total: int = TOTAL, source: Source | None = None) -> int:
    """Each cut, resumed, ends as the run that was never touched; gives how many of them were within an episode."""
    straight = case.make(source)
    beginning = fingerprint(straight)
    expected = fingerprint(learned(straight, total))
    still = {name for name in expected if expected[name] == beginning[name]}
    constant = {"optimizer", "draws", "posterior", "weights", "target"}
    assert still <= ({"draws", "posterior"} if case.agent != "random" else constant)  # the rest is worth comparing
    within = 0
    saved = case.make(source)
    for _ in save_at(saved, cuts, total, root):
        within += max(saved.envs._lengths) > 0
    assert fingerprint(saved) == expected, "saving changed the run"
    for folder in sorted(root.iterdir()):
        assert fingerprint(resume(folder, total, source, case.device)) == expected, f"cut at {folder.name}"
    return within


@pytest.mark.parametrize(("num_envs", "offsets"), [(1, (-1, 0, 1)), (3, (-3, 0))])
def test_cuts_around_every_event_of_learning(tmp_path: Path, num_envs: int, offsets: tuple[int, ...]) -> None:
    case = Case("bdqn", "CartPole-v1", num_envs)
    assert compare_cuts(case, [1, *(event + offset for event in EVENTS for offset in offsets)], tmp_path) > 4


@on_each_device
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cuts_at_random_steps(tmp_path: Path, case: Case, device: str) -> None:
    compare_cuts(replace(case, device=device), random_cuts(case, 2), tmp_path)


PONG = Case(
    "bdqn",
    "ALE/Pong-v5",
    settings={
        "protocol": "machado",  # sticky actions
        "buffer_size": 24,
        "learning_starts": 10,
        "batch_size": 8,
        "posterior_update_interval": 8,
        "posterior_batch_size": 12,
        "target_update_interval": 6,
        "reward_clip": 0.0,
    },
)


WITH_GAPS = {"stored_completely": 4, "stored_segment": 3, "n_steps": 2}  # among stacks of frames


@pytest.mark.parametrize(("agent", "more"), [("bdqn", {}), ("dqn-cts", {}), ("bdqn", WITH_GAPS)])
def test_cuts_of_an_atari_game(tmp_path: Path, agent: str, more: dict[str, Any]) -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    settings = {k: v for k, v in PONG.settings.items() if agent == "bdqn" or not k.startswith("posterior")} | more
    assert compare_cuts(Case(agent, PONG.env, settings=settings), [4, 19], tmp_path, total=28) == 2


def test_a_run_of_many_lives(tmp_path: Path) -> None:
    """One directory, several resumptions: each goes on with the segments that the one before it sealed."""
    case = Case("bdqn", "CartPole-v1", 3)
    expected = fingerprint(case.make().learn(240))
    learner, checkpoints = case.make(), bdqn.Checkpoints(tmp_path)
    for cut in [*random_cuts(case, 4, 240), 240]:
        learner.learn(max(0, cut - learner.num_timesteps))
        checkpoints.write_segments(learner)
        checkpoints.save(learner)
        checkpoints = bdqn.Checkpoints(tmp_path)
        learner = checkpoints.load().learner
    assert fingerprint(learner) == expected


def partly_frozen() -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    first, second = nn.Linear(4, 8), nn.Linear(8, 16)
    with torch.no_grad():
        for parameter in (*first.parameters(), *second.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)
    return nn.Sequential(first.requires_grad_(False), nn.ReLU(), second, nn.ReLU())


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_a_network_of_the_users_own_with_frozen_layers(tmp_path: Path, optimizer: str) -> None:
    def make() -> Learner:
        return bdqn.make("ddqn", "CartPole-v1", network=partly_frozen(), learning_starts=20, optimizer=optimizer)

    expected = fingerprint(make().learn(80))
    bdqn.Checkpoints(tmp_path).save(make().learn(50))
    learner = bdqn.Checkpoints(tmp_path).load(network=partly_frozen()).learner
    assert fingerprint(learner.learn(30)) == expected


# --- environments of the user's own --------------------------------------------------------------------------


class Walk(gym.Env[np.ndarray, int]):
    """A drifting walk that keeps an array, a float32, a list and a generator of its own."""

    observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.weather = np.random.RandomState(5)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = self.np_random.normal(size=2)
        self.speed = np.float32(0.1)
        self.path = [0]
        return self.position.astype(np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.speed = self.speed * 1.1 + self.weather.normal() / 9  # rounded to float32 as long as it is one
        self.position = self.position + (2 * action - 1) * float(self.speed)
        self.path.append(self.path[-1] + action)
        over = bool(np.abs(self.position).max() > 2)
        return self.position.clip(-9, 9).astype(np.float32), float(self.speed) + self.path[-1] / 9, over, False, {}


class OpenWalk(Walk):
    """The same, and it says what its state is."""

    def get_env_state(self) -> dict[str, Any]:
        weather = self.weather.get_state(legacy=False)
        return {"position": self.position, "speed": self.speed, "path": self.path, "weather": weather}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        self.position, self.speed, self.path = state["position"], state["speed"], state["path"]
        self.weather.set_state(state["weather"])


class Delay(gym.Wrapper[np.ndarray, int, np.ndarray, int]):
    """Pays every reward one decision later."""

    pending = 0.0

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        paid, self.pending = self.pending, float(reward)
        return observation, paid, terminated, truncated, info

    def get_env_state(self) -> dict[str, Any]:
        return {"pending": self.pending}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        self.pending = state["pending"]


class UnsavableWalk(OpenWalk):
    def get_env_state(self) -> dict[str, Any]:
        return {"weather": self.weather}  # an object is no state


def delayed_walk() -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(Delay(OpenWalk()), 40)


CLOSED, UNSAVABLE = "reliability/ClosedWalk-v0", "reliability/UnsavableWalk-v0"


@pytest.fixture
def _registered() -> Iterator[None]:
    gym.register(CLOSED, Walk)
    gym.register(UNSAVABLE, UnsavableWalk)
    yield
    for name in (CLOSED, UNSAVABLE):
        del gym.registry[name]


@pytest.mark.parametrize("num_envs", [1, 3])
def test_an_environment_and_a_wrapper_that_say_their_state_go_on_exactly(tmp_path: Path, num_envs: int) -> None:
    case = Case("bdqn", "Walk", num_envs)
    assert compare_cuts(case, [13, 55, 74], tmp_path, source=delayed_walk)


REASONS = {
    CLOSED: "Walk has no get_env_state() and set_env_state()",
    UNSAVABLE: "get_env_state() of reliability.test_r03_resume.UnsavableWalk returned a state that cannot be saved: "
    "a state cannot "
    "hold a value of type RandomState",
}


@pytest.mark.usefixtures("_registered")
@pytest.mark.parametrize("env", REASONS)
def test_an_environment_that_does_not_is_named_and_begins_a_new_episode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], env: str
) -> None:
    run = tmp_path / "run"
    assert main([*command(run, 121, "--num-envs", "3", env=env), "--log-freq", "40"]) == 0
    assert REASONS[env] in (said := capsys.readouterr().out)
    assert "continues, but with a new episode" in said
    again = tmp_path / "again"
    shutil.copytree(run, again)
    for folder in (run, again):
        assert main(["resume", str(folder), "--steps", "240", "--quiet"]) == 0
        errors = capsys.readouterr().err
        assert [f"Environment {i} starts a new episode: " in errors for i in range(3)] == [True] * 3
        assert errors.count(REASONS[env]) == 3
        (resumed,) = json.loads((folder / "meta.json").read_text())["resumed"]
        assert resumed["step"] == 123
        assert len(resumed["lost"]) == 3
        assert all(REASONS[env] in lost for lost in resumed["lost"])
    assert files(run) == files(again)  # what is begun anew follows from the seed too


def test_what_an_unknown_environment_loses_is_the_rest_of_its_episode_and_nothing_else(tmp_path: Path) -> None:
    learner = Case("ddqn", "Walk", 3, {"buffer_size": 900}).make(Walk).learn(90)
    assert max(learner.envs._lengths) > 0
    bdqn.Checkpoints(tmp_path).save(learner)
    restored = bdqn.Checkpoints(tmp_path).load(Walk)
    assert restored.restarted.keys() == {0, 1, 2}
    before, after = fingerprint(learner), fingerprint(restored.learner)
    assert {name for name in before if before[name] != after[name]} == {"replay", "environments", "agent"}
    old, new = learner.agent.replay, restored.learner.agent.replay
    assert len(new) == len(old)  # no transition leads from the old episode into the new one
    assert np.array_equal(new.written, old.written + 1)
    assert restored.learner.envs._lengths == [0, 0, 0]
    restored.learner.learn(60)
    assert restored.learner.agent.updates > learner.agent.updates


# --- the command line ----------------------------------------------------------------------------------------

BDQN = ["--posterior-update-interval", str(REFIT), "--posterior-batch-size", "60"]


def command(folder: Path, steps: int, *more: str, agent: str = "bdqn", env: str = "CartPole-v1") -> list[str]:
    head = ["train", "--agent", agent, "--env", env, "--steps", str(steps), "--out", str(folder)]
    small = ["--learning-starts", str(START), "--features", "16", "--target-update-interval", str(SYNC)]
    return [*head, *small, *(BDQN if agent == "bdqn" else ()), "--batch-size", "16", *more]


def files(run: Path) -> dict[str, bytes]:
    """All that follows from the configuration: tables, the newest checkpoint and the segments that it names."""
    names = ["config.toml", "episodes.csv", "metrics.csv"]
    names += ["evaluations.csv"] if (run / "evaluations.csv").exists() else []
    newest = sorted((run / "checkpoints").glob("gen-*"))[-1]
    paths = [run / name for name in names] + sorted(newest.iterdir())
    segments = json.loads((newest / "manifest.json").read_text())["segments"]
    paths += [run / "checkpoints" / "replay" / segment["name"] for segment in segments]
    return {str(path.relative_to(run)): path.read_bytes() for path in paths}


def forget_after(run: Path, step: int) -> None:
    """As if the run had been killed before its next checkpoint: later rows are still in its tables."""
    for path in (run / "checkpoints").glob("gen-*"):
        if int(path.name.removeprefix("gen-")) > step:
            shutil.rmtree(path)


CLI_CASES = {
    "bdqn": ("--buffer-size", "90", "--eval-freq", "50", "--eval-episodes", "1"),
    "ddqn": ("--buffer-size", "90", "--num-envs", "3", "--optimizer", "rmsprop"),
    "random": (
        "--buffer-size",
        "240",
    ),
}


@pytest.mark.parametrize(("agent", "more"), CLI_CASES.items())
def test_a_run_that_fell_back_to_a_checkpoint_repeats_what_it_lost(
    tmp_path: Path, agent: str, more: tuple[str, ...]
) -> None:
    straight = tmp_path / "straight"
    keep = ("--save-freq", "19", "--keep", "100", "--log-freq", "20", "--quiet")
    assert main(command(straight, 160, *keep, *more, agent=agent)) == 0
    expected = files(straight)
    assert len(expected) > 9
    assert expected["episodes.csv"].count(b"\n") > 3
    steps = [int(path.name.removeprefix("gen-")) for path in (straight / "checkpoints").glob("gen-*")]
    for step in sorted(steps)[1:-1:4]:
        run = tmp_path / f"from-{step}"
        shutil.copytree(straight, run)
        forget_after(run, step)
        assert main(["resume", str(run), "--quiet"]) == 0
        assert files(run) == expected, f"resumed from {step}"
        (resumed,) = json.loads((run / "meta.json").read_text())["resumed"]
        assert (resumed["step"], resumed["lost"]) == (step, [])


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(command(run, 90, "--quiet", "--log-freq", "25")) == 0
    expected = files(run)
    forget_after(run, 0)
    assert main(["resume", str(run), "--quiet"]) == 0
    assert files(run) == expected


def test_a_finished_run_can_be_extended_and_equals_one_long_run(tmp_path: Path) -> None:
    straight, extended = tmp_path / "straight", tmp_path / "extended"
    more = ("--quiet", "--log-freq", "25", "--eval-freq", "60", "--eval-episodes", "2", "--num-envs", "3")
    assert main(command(straight, 280, *more)) == 0
    assert main(command(extended, 100, *more)) == 0
    for steps in ("199", "280"):
        assert json.loads((extended / "meta.json").read_text())["status"] == "finished"
        assert main(["resume", str(extended), "--steps", steps, "--quiet"]) == 0
    assert files(extended) == files(straight)
    assert [r["step"] for r in json.loads((extended / "meta.json").read_text())["resumed"]] == [102, 201]


def test_a_run_resumed_by_another_process_equals_one_that_was_not(tmp_path: Path) -> None:
    straight, cut = tmp_path / "straight", tmp_path / "cut"
    more = ("--quiet", "--log-freq", "25")
    assert main(command(straight, 200, *more)) == 0
    assert main(command(cut, 77, *more)) == 0
    subprocess.run(
        [sys.executable, "-m", "bdqn", "resume", str(cut), "--steps", "200", "--quiet"],
        check=True,
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert files(cut) == files(straight)


# --- without the replay memory -------------------------------------------------------------------------------


def test_without_its_replay_memory_a_run_goes_on_and_says_what_it_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(command(run, 100, "--save-replay", "false", "--log-freq", "10")) == 0
    assert "continues, but with an empty replay buffer (--save-replay false)" in capsys.readouterr().out
    assert not (run / "checkpoints" / "replay").exists()
    assert main(["resume", str(run), "--steps", "200", "--quiet"]) == 0
    loss = "The replay buffer was not saved: learning pauses until it holds learning_starts transitions again."
    assert f"bdqn: {loss}" in capsys.readouterr().err
    (resumed,) = json.loads((run / "meta.json").read_text())["resumed"]
    assert (resumed["step"], resumed["lost"]) == (100, [loss])
    rows = [row.split(",") for row in (run / "metrics.csv").read_text().splitlines()]
    losses = [row[rows[0].index("train/loss")] for row in rows[1:]]
    assert [int(row[0]) for row in rows[1:]] == list(range(10, 201, 10))
    paused = 100 + START
    assert len({loss for row, loss in zip(rows[1:], losses, strict=True) if 100 <= int(row[0]) < paused}) == 1
    assert len(set(losses[paused // 10 + 1 :])) > 4


@pytest.mark.parametrize("num_envs", [1, 3])
def test_without_its_replay_memory_an_agent_learns_again_after_learning_starts(tmp_path: Path, num_envs: int) -> None:
    learner = Case("bdqn", "CartPole-v1", num_envs).make().learn(90)
    assert max(learner.envs._lengths) > 0
    bdqn.Checkpoints(tmp_path, save_replay=False).save(learner)
    restored: Restored = bdqn.Checkpoints(tmp_path, save_replay=False).load()
    assert (restored.replay, restored.restarted) == (False, {})
    before, after = fingerprint(learner), fingerprint(restored.learner)
    assert {name for name in before if before[name] != after[name]} == {"replay", "agent"}
    agent, first = restored.learner.agent, None
    assert len(agent.replay) == 0
    stand = restored.learner.envs.obs.copy()
    for _ in restored.learner.steps(120):
        if first is None and len(agent.replay) <= num_envs:  # what it learns from begins where it stands
            assert np.array_equal(agent.replay.gather(np.arange(num_envs), np.zeros(num_envs, int)).obs, stand)
        if agent.updates > learner.agent.updates and first is None:
            first = agent.replay.seen
    assert first is not None
    assert START <= first <= START + UPDATE + 2 * num_envs
    assert agent.updates - learner.agent.updates > 15


# --- at length -----------------------------------------------------------------------------------------------


def resumed_fingerprint(folder: str, total: int) -> dict[str, str]:
    torch.set_num_threads(1)
    return fingerprint(resume(Path(folder), total))


@pytest.mark.long
@pytest.mark.parametrize("case", [Case("bdqn", "MinAtar/Asterix-v1", 3), PONG], ids=str)
def test_a_new_process_goes_on_exactly(tmp_path: Path, case: Case) -> None:
    expected = fingerprint(learned(case.make(), TOTAL))
    (folder,) = save_at(case.make(), [61], TOTAL, tmp_path)
    assert elsewhere(resumed_fingerprint, folder, TOTAL) == expected


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::bdqn.qlearning.diagnostics.SpreadWarning")  # small settings are not sensible ones
def test_every_kind_of_training_is_cut_at_many_random_steps(tmp_path: Path) -> None:
    seed = int(np.random.SeedSequence().entropy % 2**32)  # type: ignore[operator]
    print(f"seed {seed}")
    envs = ["CartPole-v1", "MinAtar/SpaceInvaders-v1", "bdqn/DeepSea-v0", "FrozenLake-v1"]
    cuts = within = 0
    for agent, env, num_envs, optimizer in product(
        ("random", "dqn", "ddqn", "bdqn"), envs, (1, 3), ("adam", "rmsprop")
    ):
        case = Case(agent, env, num_envs, {"optimizer": optimizer})
        count = 6 if agent != "random" else 2
        within += compare_cuts(case, random_cuts(case, count, 999, seed), tmp_path / str(case), total=999)
        cuts += count
    print(f"{cuts} cuts, {within} of them within an episode: all equal")


@pytest.mark.long
def test_atari_trainings_are_cut_at_many_random_steps(tmp_path: Path) -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    seed = int(np.random.SeedSequence().entropy % 2**32)  # type: ignore[operator]
    print(f"seed {seed}")
    cuts = 0
    for agent, env, num_envs in (("bdqn", "ALE/Pong-v5", 1), ("ddqn", "ALE/Breakout-v5", 3)):
        settings = {k: v for k, v in PONG.settings.items() if agent == "bdqn" or not k.startswith("posterior")}
        case = Case(agent, env, num_envs, {**settings, "buffer_size": 300})
        compare_cuts(case, random_cuts(case, 10, 900, seed), tmp_path / agent, total=900)
        cuts += 10
    print(f"{cuts} cuts of Atari games: all equal")
