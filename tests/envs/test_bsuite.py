"""bsuite's experiments are bsuite's own: the same episodes, and the same log, whatever interrupts a run."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.error import URLError

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import seeding

import bdqn
from bdqn.cli import main
from bdqn.envs import Environments, UnknownEnvironment, family, find_spec, make_env
from bdqn.envs.bsuite import bsuite_id_of, env_id_of, save_log
from bdqn.runs import exit_codes
from bdqn.storage.state_files import from_files, to_files
from support.small import small

bsuite = pytest.importorskip("bsuite", reason="the bsuite extra is not installed")
from bsuite import sweep  # noqa: E402
from bsuite.logging import csv_load  # noqa: E402
from bsuite.utils import datasets  # noqa: E402

#: Of each experiment one setting from the middle: noise of 1, a scale of 1, a size or length that is not the smallest.
EXPERIMENTS = list(dict.fromkeys(known.split("/")[0] for known in sweep.SWEEP))
ONE_OF_EACH = [f"{name}/{5 if name.startswith('memory') else 8}" for name in EXPERIMENTS]


@pytest.fixture(autouse=True)
def _digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures in the place of MNIST's, which would be fetched from the network."""
    rng = np.random.default_rng(0)
    pictures = (rng.integers(-128, 128, (50, 28, 28)).astype(np.int8), rng.integers(10, size=50).astype(np.uint8))
    monkeypatch.setattr(datasets, "load_mnist", lambda: (pictures, pictures))


def actions(env: gym.Env[Any, Any], seed: int = 0) -> Iterator[int]:
    rng = np.random.default_rng(seed)
    while True:
        yield int(rng.integers(env.action_space.n))  # type: ignore[attr-defined]


def trajectory(env: gym.Env[Any, Any], seed: int, steps: int = 150) -> list[tuple[bytes, float, bool]]:
    seen = [(env.reset(seed=seed)[0].tobytes(), 0.0, False)]
    for action in islice(actions(env), steps):
        observation, reward, terminated, truncated, _ = env.step(action)
        assert observation in env.observation_space
        assert not truncated
        seen.append((observation.tobytes(), float(reward), terminated))
        if terminated:
            seen.append((env.reset()[0].tobytes(), 0.0, False))
    return seen


def test_every_setting_of_bsuite_has_an_id() -> None:
    for known in sweep.SWEEP:
        assert bsuite_id_of(env_id_of(known)) == known
        assert find_spec(env_id_of(known)).kwargs == {"bsuite_id": known}
    assert env_id_of("deep_sea/3") == "bsuite/deep_sea-3-v0"
    assert family("bsuite/deep_sea-3-v0") == "classic"
    env = make_env("bsuite/deep_sea-3-v0").unwrapped
    assert env.observation_space.shape == (16, 16)
    assert env.num_episodes == 10_000  # type: ignore[attr-defined]


def test_an_id_that_bsuite_does_not_have_is_named_with_one_that_it_has() -> None:
    with pytest.raises(UnknownEnvironment, match=r"did you mean .*bsuite/deep_sea-1\d-v0"):
        make_env("bsuite/deep_sea-199-v0")


@pytest.mark.parametrize("bsuite_id", ONE_OF_EACH)
def test_episodes_and_log_are_those_of_bsuite_itself(bsuite_id: str, tmp_path: Path) -> None:
    ours, theirs = make_env(env_id_of(bsuite_id)), bsuite.load_and_record(bsuite_id, str(tmp_path / "theirs"))
    seeds, _ = seeding.np_random(7)
    layer = theirs
    while (layer := vars(layer).get("_env")) is not None:
        if "_rng" in vars(layer):
            layer._rng.seed(int(seeds.integers(2**32)))
    observation, _ = ours.reset(seed=7)
    seen = theirs.reset()
    np.testing.assert_array_equal(observation, seen.observation)
    for action in islice(actions(ours), 2_500):
        observation, reward, terminated, _, _ = ours.step(action)
        seen = theirs.step(action)
        np.testing.assert_array_equal(observation, seen.observation)
        assert (reward, terminated) == (seen.reward, seen.last())
        if terminated:
            np.testing.assert_array_equal(ours.reset()[0], theirs.reset().observation)
    save_log(ours.unwrapped.log, bsuite_id, tmp_path / "ours")  # type: ignore[attr-defined]
    (own,), (other,) = ((tmp_path / name).iterdir() for name in ("ours", "theirs"))
    assert own.name == other.name
    assert own.read_bytes() == other.read_bytes()
    rows, _ = csv_load.load_bsuite(str(tmp_path / "ours"))
    assert set(rows.bsuite_id) == {bsuite_id}


@pytest.mark.parametrize("bsuite_id", ONE_OF_EACH)
def test_a_seed_fixes_everything_that_is_left_to_chance(bsuite_id: str) -> None:
    first, again, other = (trajectory(make_env(env_id_of(bsuite_id)), seed) for seed in (1, 1, 2))
    assert first == again
    by_chance = not bsuite_id.startswith(("bandit/", "bandit_scale", "deep_sea/", "discounting"))
    assert (first != other) == by_chance


@pytest.mark.parametrize("bsuite_id", ONE_OF_EACH)
def test_an_experiment_goes_on_exactly_wherever_it_was_cut(bsuite_id: str) -> None:
    envs = Environments([make_env(env_id_of(bsuite_id))], [1])
    chosen = actions(envs.envs[0])
    for cut in (1, 7, 400):
        for action in islice(chosen, cut):
            envs.step([action])
        saved = to_files(envs.state())
        other = Environments([make_env(env_id_of(bsuite_id))], [2])
        assert other.load_state(from_files(*saved), [0]) == {}
        twin = copy.deepcopy(envs)
        for action in islice(actions(envs.envs[0], cut), 200):
            steps = [each.step([action]) for each in (envs, other, twin)]
            for name in ("next_obs", "reward", "terminal", "obs"):
                for again in steps[1:]:
                    np.testing.assert_array_equal(getattr(steps[0], name), getattr(again, name))
        assert to_files(other.state()) == to_files(twin.state()) == to_files(envs.state())


def test_a_state_that_is_not_one_of_this_experiment_is_refused() -> None:
    env = make_env("bsuite/catch-0-v0").unwrapped
    env.reset(seed=0)
    good = env.get_env_state()  # type: ignore[attr-defined]
    log, layers = good["log"], good["layers"]
    for bad, reason in (
        ({"log": log, "layers": layers[:1]}, "shorter"),
        ({"log": log, "layers": [layers[0], layers[0]]}, "catch/0 has"),
        ({"log": log, "layers": [{**layers[0], "_steps": "many"}, layers[1]]}, "_steps is 'many'"),
        ({"log": [{"episode": "=1+1"}], "layers": layers}, "more than numbers"),
    ):
        with pytest.raises(ValueError, match=reason):
            env.set_env_state(bad)  # type: ignore[attr-defined]


def test_what_is_played_elsewhere_does_not_enter_the_log() -> None:
    learner = small("bdqn", "bsuite/catch-0-v0")
    learner.learn(200, lambda *_: True, eval_freq=50, eval_episodes=3)
    learner.calibrate(19)
    (env,) = learner.envs.envs
    assert [row["episode"] for row in env.unwrapped.log] == [*range(1, 11), 12, 14, 17, 20]
    assert env.unwrapped.log[-1]["steps"] == 180


def test_an_interrupted_run_has_the_log_of_one_that_was_not(tmp_path: Path) -> None:
    def train(name: str, *words: str) -> int:
        common = ["--agent", "random", "--env", "bsuite/umbrella_length-2-v0", "--steps", "9000", "--quiet"]
        return main(["train", *common, "--max-episodes", "1300", "--out", str(tmp_path / name), *words])

    assert train("whole") == 0
    assert train("run", "--max-minutes", "0.002") == exit_codes.TIME_LIMIT
    assert main(["resume", str(tmp_path / "run"), "--quiet"]) == 0
    whole, run = (next((tmp_path / name / "checkpoints").glob("gen-000000003900")) for name in ("whole", "run"))
    for name in ("environments.json", "environments.safetensors"):
        assert (whole / name).read_bytes() == (run / name).read_bytes()
    state = json.loads((run / "environments.json").read_text())["own"][0]["state"]["layers"][-1]["state"]
    assert state["log"][-1]["episode"] == 1_200


def test_a_missing_data_set_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch() -> None:
        raise URLError("no network")

    monkeypatch.setattr(datasets, "load_mnist", fetch)
    with pytest.raises(OSError, match=r"mnist/0 needs .*no network.*put its four files .* into /tmp/mnist"):
        make_env("bsuite/mnist-0-v0")


def test_a_bayesian_agent_learns_there() -> None:
    """A bandit with eleven arms: after 300 pulls the best one is known."""
    learner = bdqn.make("bdqn-explore", "bsuite/bandit-0-v0", seed=0).learn(300)
    env = learner.envs.envs[0].unwrapped
    action, _ = learner.predict(np.ones((1, 1), np.float32))
    assert env.step(int(action))[1] == 1.0
