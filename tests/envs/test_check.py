"""What ``check_env`` finds: nothing wrong with what is sound, and each fault by its name."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import bdqn
from bdqn.envs.check import Finding
from support.worlds import World, world


class Tame(World):
    """With nothing to remark on: it can be rendered, saved and restored, and repeats itself."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def get_env_state(self) -> dict[str, Any]:
        return {"time": self.time}

    def set_env_state(self, state: Any) -> None:
        self.time = state["time"]


def tame(**changes: Any) -> type[Tame]:
    return type("Odd", (Tame,), changes)


class Mute(Exception):
    """An error that cannot say what it is about."""

    def __str__(self) -> str:
        return str(1 / 0)


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


def no_key(self: Any, name: str) -> Any:
    raise KeyError(name)


def found(source: Any, level: str, subject: str) -> str:
    """The only finding on a subject, which has this level."""
    findings = bdqn.check_env(source, episodes=3)
    (finding,) = [finding for finding in findings if finding.subject == subject and finding.level != "ok"]
    assert finding.level == level
    return finding.text


@pytest.mark.parametrize("source", [Tame, Tame(), "FrozenLake-v1", "MountainCar-v0", "bdqn/DeepSea-v0"])
def test_sound_environments_have_neither_errors_nor_warnings(source: Any) -> None:
    findings = bdqn.check_env(source)
    assert {finding.level for finding in findings} <= {"ok", "note"}
    assert [str(f) for f in findings if f.level == "note" and source in (Tame,)] == []
    subjects = [finding.subject for finding in findings]
    expected = ["actions", "observations", "seen", "rewards", "time limit", "episodes", "seeds", "resume", "render"]
    assert [subject for subject in subjects if subject in expected] == expected
    assert all(finding.text.endswith(".") for finding in findings)


def test_a_finding_is_a_line() -> None:
    assert str(Finding("ok", "speed", "fast.")) == "ok      speed         fast."


@pytest.mark.parametrize(
    ("source", "level", "subject", "says"),
    [
        ("Nope-v0", "error", "making it", "Unknown environment 'Nope-v0'"),
        ("Pendulum-v1", "error", "spaces", "discretise"),
        (world(step=lambda self, action: (1, 2, 3, {})), "error", "answers", "returned a tuple of length 4"),
        (world(step=lambda self, action: 1 / 0), "error", "answers", "raised ZeroDivisionError"),
        (world(step=raising(Mute())), "error", "answers", "raised Mute: (its text raised ZeroDivisionError)"),
        (
            world(step=lambda self, action: (torch.ones(4, requires_grad=True), 1.0, False, False, {})),
            "error",
            "answers",
            "step() of Odd returned a Tensor as observation, but declares float32 of shape (4,)",
        ),
        (
            world(step=lambda self, action: (self.observe(), 10**5000, False, False, {})),
            "error",
            "answers",
            "returned an integer of 16,610 bits as reward, but must return a number",
        ),
        (tame(close=raising(RuntimeError("no connection"))), "warning", "closing", "close() raised RuntimeError: no c"),
        (tame(close=raising(SystemExit(0))), "warning", "closing", "close() raised SystemExit: 0"),
        (tame(observe=lambda self: np.full(4, np.nan)), "error", "seen", "NaN or infinity"),
        (
            tame(observation_space=spaces.Box(0, 255, (4,), np.uint8), observe=lambda self: np.full(4, 0.5)),
            "error",
            "seen",
            "float64 from 0.5 to 0.5, but the space declares uint8",
        ),
        (
            tame(step=lambda self, action: (self.observe(), np.nan, True, False, {})),
            "error",
            "rewards",
            "NaN or infinite",
        ),
        (
            tame(observe=lambda self: np.array([0, 1000, 0, 0])),
            "warning",
            "bounds",
            "at [1] from 1000 to 1000, but declared in",
        ),
        (tame(observation_space=spaces.Box(-1e4, 1e4, (4,))), "warning", "bounds", "scaled to almost zero"),
        (tame(observe=lambda self: np.random.rand(4)), "warning", "seeds", "another result at reset"),  # noqa: NPY002
        (tame(set_env_state=lambda self, state: None), "warning", "resume", "continued differently"),
        (tame(action_space=spaces.Discrete(1)), "warning", "actions", "there is no choice"),
        (tame(action_space=spaces.Discrete(10_001)), "warning", "actions", "Odd has 10,001 actions: every decision"),
        (
            tame(observation_space=spaces.Discrete(10_001), observe=lambda self: 7),
            "warning",
            "observations",
            "Odd has observations of 10,001 categories",
        ),
        (
            tame(step=lambda self, action: (self.observe(), 0.0, False, False, {})),
            "note",
            "rewards",
            "0 % of them not zero",
        ),
        (tame(step=lambda self, action: (self.observe(), 1e4, True, False, {})), "note", "rewards", "reward_clip"),
        (tame(step=lambda self, action: (self.observe(), 1.0, 1, 0, {})), "note", "episodes", "of type int"),
        (tame(observation_space=spaces.Box(-np.inf, 1, (4,))), "note", "bounds", "4 of 4 numbers have no finite"),
        (World, "note", "resume", "has no get_env_state()"),
        (tame(__getattr__=no_key), "error", "answers", "Odd raised KeyError when it was asked for action_masks: its"),
        (tame(metadata={}), "note", "render", "no render mode rgb_array"),
    ],
)
def test_each_fault_is_found_and_said(source: Any, level: str, subject: str, says: str) -> None:
    assert says in found(source, level, subject)


def test_episodes_that_do_not_end_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bdqn.envs.check.MOST_STEPS", 50)
    endless = tame(step=lambda self, action: (self.observe(), 1.0, False, False, {}))
    assert "none ended within 50 decisions" in found(endless, "warning", "episodes")
    assert "none ended" in found(lambda: gym.wrappers.TimeLimit(endless(), 99), "warning", "episodes")


@pytest.mark.parametrize("method", ["step", "reset"])
def test_what_never_answers_is_interrupted(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bdqn.envs.check.PATIENCE", 0.05, raising=False)
    stuck = world(**{method: lambda self, *_, **given: time.sleep(2)})
    text = found(stuck, "error", "answers")
    assert text.startswith(
        f"{method}() of Odd raised StepTimeout: it had not finished after 0.05 s (test_check.py, line "
    )


def test_in_a_thread_of_its_own_nothing_is_timed() -> None:
    with ThreadPoolExecutor() as pool:
        assert {finding.level for finding in pool.submit(bdqn.check_env, Tame).result()} == {"ok"}


def test_what_gymnasium_says_is_passed_on_without_colours() -> None:
    text = found(world(seed=lambda self: None), "note", "gymnasium")
    assert text.startswith("Official support for the `seed` function is dropped.")


def test_an_environment_that_was_made_stays_open_and_one_made_here_is_closed() -> None:
    closed = []
    source = tame(close=lambda self: closed.append(self))
    mine = source()
    bdqn.check_env(mine)
    assert closed == []
    bdqn.check_env(source)
    assert len(closed) == 2  # one to play in, one to restore
