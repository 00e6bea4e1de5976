"""An error of the user's environment, or too little memory, ends a run and loses nothing that was learned before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import bdqn
from bdqn.cli import main
from bdqn.qlearning import agent
from bdqn.qlearning.finite_checks import NonFiniteError
from bdqn.qlearning.last_layer import LastLayerFit
from bdqn.runs import exit_codes
from bdqn.storage.checkpoints import Checkpoints
from support.cartpole import SETTINGS, saved, status


class Crashing(CartPoleEnv):
    """Raises in a certain step, counted over all instances."""

    steps: ClassVar[int] = 0
    crash_at: ClassVar[int] = 0
    error: ClassVar[BaseException] = RuntimeError("the simulator is gone")
    amid_step = False

    def step(self, action: Any) -> Any:
        Crashing.steps += 1
        if Crashing.steps == Crashing.crash_at:
            self.amid_step = True
            raise Crashing.error
        return super().step(action)

    def get_env_state(self) -> dict[str, Any]:
        assert not self.amid_step, "nobody knows its state"
        return {"state": np.array(self.state), "beyond": self.steps_beyond_terminated}

    def set_env_state(self, state: dict[str, Any]) -> None:
        self.state, self.steps_beyond_terminated = state["state"], state["beyond"]


gym.register("Crashing-v0", Crashing, max_episode_steps=500)
TRAIN = ("train", *SETTINGS[2:], "--env", "Crashing-v0", "--eval-freq", "0", "--save-freq", "0", "--steps", "400")


@pytest.fixture(autouse=True)
def _sound_again() -> Iterator[None]:
    Crashing.steps, Crashing.crash_at, Crashing.error = 0, 0, RuntimeError("the simulator is gone")
    yield
    Crashing.crash_at = 0


@pytest.mark.parametrize("num_envs", [1, 2])
def test_an_error_in_a_step_is_shown_and_the_run_goes_on_from_the_decision_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], num_envs: int
) -> None:
    folder = tmp_path / "run"
    Crashing.crash_at = 250
    assert main([*TRAIN, "--num-envs", str(num_envs), "--out", str(folder)]) == exit_codes.CRASHED
    *shown, told = capsys.readouterr().err.splitlines()
    assert shown[0] == "Traceback (most recent call last):"
    *_, line, error, note = shown
    assert "raise Crashing.error" in line
    assert error == "RuntimeError: the simulator is gone"
    assert note.startswith("In the environment: step() of ")
    complete = 249 // num_envs * num_envs
    assert saved(folder) == complete
    assert told.startswith(f"bdqn: Stopped after {complete} decisions by RuntimeError: the simulator is gone")
    assert f"{folder}/checkpoints/gen-{complete:012d}; bdqn resume {folder} continues from there." in told
    assert status(folder) == "failed"
    assert main(["inspect", str(folder)]) == 0
    Crashing.crash_at = 0
    assert main(["resume", str(folder), "--quiet"]) == 0
    note = "Environment 0 starts a new episode: its last step ended in RuntimeError."
    assert note in capsys.readouterr().err
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["status"], meta["resumed"][0]["step"]) == ("finished", complete)
    assert len(meta["resumed"][0]["lost"]) == num_envs
    lengths = [int(line.split(",")[3]) for line in (folder / "episodes.csv").read_text().splitlines()[1:]]
    assert sum(lengths) < 400  # the episode that was cut short is in no row


def test_an_error_in_an_evaluation_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    Crashing.crash_at = 305  # the fifth decision of the evaluation after 300
    assert main([*TRAIN, "--eval-freq", "300", "--out", str(folder)]) == exit_codes.CRASHED
    assert saved(folder) == 300
    Crashing.crash_at = 0
    assert main(["resume", str(folder), "--quiet"]) == 0
    captured = capsys.readouterr()
    assert "new episode" not in captured.err  # the training's environment was between two decisions
    assert (folder / "evaluations.csv").read_text().splitlines()[1].startswith("300,")


def test_in_python_learning_goes_on_with_a_new_episode_and_can_be_saved(tmp_path: Path) -> None:
    learner = bdqn.make("ddqn", "Crashing-v0", learning_starts=50, buffer_size=200, features=8)
    Crashing.crash_at, Crashing.error = 100, KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        learner.learn(200)
    assert learner.num_timesteps == 99
    Checkpoints(tmp_path).save(learner)
    Crashing.crash_at = 0
    restored = Checkpoints(tmp_path).load()
    assert restored.restarted == {0: "its last step ended in KeyboardInterrupt"}
    learner.learn(20)
    restored.learner.learn(20)  # the same, in another process
    np.testing.assert_array_equal(learner.envs.obs, restored.learner.envs.obs)
    assert learner.num_timesteps == 119
    assert learner.envs.lost is None


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 5 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 5 bytes."),
    ],
    ids=["numpy", "torch"],
)
def test_too_little_memory_in_a_refit_is_told_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(LastLayerFit, "_data", refuse)
    folder = tmp_path / "run"
    assert main([*TRAIN, "--save-freq", "50", "--out", str(folder)]) == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("bdqn: Stopped after 100 decisions: out of memory in a refit (")
    assert "smaller posterior_batch_size or features" in told
    assert f"bdqn resume {folder} continues from there." in told


def test_too_little_memory_in_the_environment_is_told_as_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Crashing.crash_at, Crashing.error = 20, MemoryError("no room for the map")
    assert main([*TRAIN, "--out", str(tmp_path / "run")]) == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("bdqn: Stopped after 19 decisions: step() of Crashing-v0 raised MemoryError: no room for")
    assert "batch_size" not in told


def test_what_spoils_the_agent_is_still_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the middle of learning leaves an agent that is half what it was."""

    def refuse(*_: object) -> None:
        raise NonFiniteError("The loss", 200)

    folder = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(agent, "check_loss", refuse)
        assert main([*TRAIN, "--out", str(folder)]) == 1
    assert not saved(folder)


def test_an_environment_that_calls_exit_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Crashing, "error", SystemExit(0))
    Crashing.crash_at = 250
    assert main([*TRAIN, "--out", str(tmp_path / "run")]) == exit_codes.FAILED
    assert saved(tmp_path / "run") == 249


@pytest.mark.parametrize("broken", ["get_env_state", "set_env_state"])
def test_a_state_that_cannot_be_told_or_taken_back_costs_the_episode_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    def fail(_self: object, *_: object) -> None:
        raise RuntimeError("no connection")

    monkeypatch.setattr(Crashing, "get_env_state", lambda _: {}, raising=False)
    monkeypatch.setattr(Crashing, "set_env_state", lambda _, state: None, raising=False)
    monkeypatch.setattr(Crashing, broken, fail)
    assert main([*TRAIN, "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert main(["resume", str(tmp_path / "run"), "--steps", "450", "--quiet"]) == 0
    assert f"{broken}() of" in capsys.readouterr().err
    assert saved(tmp_path / "run") == 450


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError("the simulator's task"), GeneratorExit()], ids=["task", "end"]
)
def test_what_is_no_exception_loses_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    monkeypatch.setattr(Crashing, "error", error)
    Crashing.crash_at = 250
    assert main([*TRAIN, "--out", str(tmp_path / "run")]) == exit_codes.CRASHED
    assert saved(tmp_path / "run") == 249
    *_, told = capsys.readouterr().err.splitlines()
    assert told.startswith(f"bdqn: Stopped after 249 decisions by {type(error).__name__}: ")
