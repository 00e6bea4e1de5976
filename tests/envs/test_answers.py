"""What an environment must not answer is refused in a sentence; what is not as it declares is said once."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import bdqn
from bdqn.envs import BadAnswer, Environments, EnvironmentWarning, NotAnEnvironment, UnsupportedSpace, blamed
from bdqn.envs.gym_vector import NotSameStep
from bdqn.runs.evaluation import evaluate
from support.worlds import EPISODE, World, world

QUICK: dict[str, Any] = {"learning_starts": 20, "buffer_size": 200, "features": 4}
BYTES = spaces.Box(0, 255, (4,), np.uint8)


def told(kind: type[Exception], source: Any, decisions: int = 30) -> str:
    """The one sentence that learning there ends with."""
    with pytest.raises(kind) as caught:
        bdqn.make("random", source, **QUICK).learn(decisions)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def answering(*answer: Any) -> type[World]:
    return world(step=lambda self, action: answer)


OBS = np.zeros(4, np.float32)
STEPS = {
    "returned a tuple of length 4, but must return the five values": answering(OBS, 1.0, False, {}),
    "returned None, but must": world(step=lambda self, action: None),
    "returned an observation of shape (1,), but declares float32 of shape (4,)": answering(
        OBS[:1], 1.0, False, False, {}
    ),
    "returned an observation of shape (5,)": answering(np.zeros(5), 1.0, False, False, {}),
    "returned None as observation": answering(None, 1.0, False, False, {}),
    "returned a dict of length 1 as observation": answering({"a": 1}, 1.0, False, False, {}),
    "returned a list of length 4 as observation": answering([[1], [2, 3], 1, 1], 1.0, False, False, {}),
    "returned None as reward, but must return a number": answering(OBS, None, False, False, {}),
    "returned an array of float64 of shape (2,) as reward": answering(OBS, np.ones(2), False, False, {}),
    "returned None as terminated, but must return True or False": answering(OBS, 1.0, None, False, {}),
    "returned a str as truncated": answering(OBS, 1.0, False, "no", {}),
    "returned an array of bool of shape (2,) as terminated": answering(OBS, 1.0, np.array([True, False]), False, {}),
    "returned None as info, but must return a dictionary": answering(OBS, 1.0, False, False, None),
}


@pytest.mark.parametrize(("says", "source"), STEPS.items())
def test_a_step_that_cannot_be_meant_is_refused(says: str, source: Any) -> None:
    assert told(BadAnswer, source).startswith(f"step() of Odd {says}")


def resetting(answer: Any, **more: Any) -> type[World]:
    return world(reset=lambda self, *, seed=None, options=None: answer, **more)


PAIR = spaces.Box(-5, 5, (2,))
RESETS = {
    "returned an array of float64 of shape (4,), but must return the pair": resetting(np.arange(4.0)),
    "returned a list of length 4, but must return the pair": resetting([1, 2, 3, 4]),  # which was taken for four ones
    "returned an array of float64 of shape (2,), but must": resetting(np.ones(2), observation_space=PAIR),
    "returned None as info": resetting((OBS, None)),
    "returned 7 as observation, but declares whole numbers from 0 to 2": world(
        observation_space=spaces.Discrete(3), observe=lambda self: 7
    ),
    "returned 1.5 as observation": world(observation_space=spaces.Discrete(3), observe=lambda self: 1.5),
    "must accept a seed": world(reset=lambda self: (OBS, {})),
}


@pytest.mark.parametrize(("says", "source"), RESETS.items())
def test_a_reset_that_cannot_be_meant_is_refused(says: str, source: Any) -> None:
    assert told(BadAnswer, source).startswith(f"reset() of Odd {says}")


def test_a_shape_that_changes_late_is_refused_too() -> None:
    late = world(observe=lambda self: np.zeros(4 if self.time < 7 else 1, np.float32))
    assert "returned an observation of shape (1,)" in told(BadAnswer, late)


@pytest.mark.parametrize("shape", [(0,), (3, 0), ()])
def test_a_space_without_numbers_is_refused(shape: tuple[int, ...]) -> None:
    empty = world(observation_space=spaces.Box(0, 1, shape), observe=lambda self: np.zeros(shape, np.float32))
    assert f"of shape {shape}, but bdqn needs at least one axis and one number" in told(UnsupportedSpace, empty)


def test_a_missing_space_is_named() -> None:
    without = world(action_space=None)
    assert told(UnsupportedSpace, without) == "Odd must have an action_space of gymnasium.spaces, but has none."


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (object(), "env is an object, which is not a gymnasium.Env"),
        (None, "env is None, which is not a gymnasium.Env"),
        (lambda: None, r"<lambda>() returned None, which is not a gymnasium.Env"),
        (lambda: World, "returned a type, which is not a gymnasium.Env"),
    ],
)
def test_what_is_no_environment_is_refused(source: Any, says: str) -> None:
    assert says in told(NotAnEnvironment, source)


def test_a_vector_of_environments_is_refused_with_what_to_give_instead() -> None:
    vector = gym.make_vec("CartPole-v1", 2)
    assert told(NotSameStep, vector).endswith("or give a function that makes one environment, and num_envs.")
    vector.close()


def test_an_environment_that_inherits_from_gym_is_told_to_move_on() -> None:
    old = type("Env", (), {"__module__": "gym.core"})()
    assert "it inherits from gym, the predecessor" in told(NotAnEnvironment, old)


@pytest.mark.parametrize(
    ("network", "says"), [(torch.nn.Identity, r"give an instance, Identity\(\)\."), (3, r"not a int\.")]
)
def test_a_network_must_be_an_instance(network: Any, says: str) -> None:
    with pytest.raises(TypeError, match=f"network must be a torch.nn.Module .*{says}"):
        bdqn.make("ddqn", World, network=network, **QUICK)


def test_an_error_of_the_environments_own_stays_what_it_is_and_has_a_note_of_where() -> None:
    def fail(self: World, action: int) -> Any:
        raise LookupError("no such room")

    with pytest.raises(LookupError, match="no such room") as caught:
        bdqn.make("random", world(step=fail), **QUICK).learn(1)
    note = blamed(caught.value)
    assert note is not None
    assert note.startswith("step() of Odd raised LookupError: no such room (test_answers.py, line ")
    assert blamed(LookupError()) is None


# --- what is said once ------------------------------------------------------------------------------------------

LIES = {
    "uint8 of shape (4,) in [0, 255], but returned float64 from 0.1 to 0.7, which uint8 cannot represent": world(
        observation_space=BYTES, observe=lambda self: np.array([0.1, 0.7, 0.5, 0.2])
    ),
    "uint8 of shape (4,) in [0, 255], but returned int64 from -1 to 1000, which uint8 cannot represent": world(
        observation_space=BYTES, observe=lambda self: np.array([-1, 300, 1000, 7])
    ),
    "float32 of shape (4,) in [-1, 1], but returned 1000 at [2], outside [-1, 1]": world(
        observe=lambda self: np.array([0, 0, 1000, 0], np.float32)
    ),
    "uint8 of shape (4,) in [0, 1], but returned 255 at [0]": world(
        observation_space=spaces.Box(0, 1, (4,), np.uint8), observe=lambda self: np.full(4, 255, np.uint8)
    ),
}
WIDE = {
    "Odd has 10,001 actions: every decision computes a value for each": world(action_space=spaces.Discrete(10_001)),
    "Odd has observations of 10,001 categories, and each is an input": world(
        observation_space=spaces.Discrete(10_001), observe=lambda self: 7
    ),
}


def said(source: Any) -> list[str]:
    """All that is said while learning and evaluating there for some episodes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner = bdqn.make("random", source, num_envs=2, **QUICK).learn(6 * EPISODE)
        evaluate(learner, 2)
    assert {warning.category for warning in caught} <= {EnvironmentWarning}
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(("says", "source"), (LIES | WIDE).items())
def test_what_is_not_as_declared_is_said_once_in_a_run(says: str, source: Any) -> None:
    (message,) = said(source)
    assert says in message


@pytest.mark.parametrize(
    "source",
    [
        World,
        world(observation_space=BYTES, observe=lambda self: np.array([0.0, 7.0, 255.0, 1.0])),  # whole numbers
        world(observe=lambda self: np.array([1 + 1e-7, -1 - 1e-7, 0, 0])),  # rounding
        world(observe=lambda self: [0.1, 0.2, 0.3, 0.4]),
        world(observation_space=spaces.Box(-np.inf, np.inf, (4,)), observe=lambda self: np.full(4, 1e9)),
        world(observation_space=spaces.Box(0, 1, (4,), np.bool_), observe=lambda self: np.ones(4, np.bool_)),
        world(step=lambda self, action: (*World.step(self, action)[:2], np.bool_(False), int(self.time > 5), {})),
    ],
)
def test_nothing_is_said_of_what_does_no_harm(source: Any) -> None:
    assert said(source) == []


def test_a_lie_that_only_a_later_observation_tells_is_found() -> None:
    late = world(observe=lambda self: np.full(4, 2.0 if self.time >= 8 else 0.0))
    assert len(said(late)) == 1


def test_bytes_that_do_not_fit_are_kept_as_they_were_before() -> None:
    """A warning, no refusal: whole runs were made so, and must go on."""
    with pytest.warns(EnvironmentWarning, match="cannot represent"):
        envs = Environments([world(observation_space=BYTES, observe=lambda self: np.array([0.9, 3, 4, 5]))()], [0])
    assert envs.obs.tolist() == [[0, 3, 4, 5]]


def test_a_reward_that_is_text_is_refused_although_python_could_read_it() -> None:
    class Words(World):
        def step(self, action: int) -> Any:
            observation, _, *rest = super().step(action)
            return observation, "1.0", *rest

    with pytest.raises(BadAnswer, match="as reward, but must return a number"):
        Environments([Words()], [0]).step([0])


def test_a_stop_iteration_of_the_environments_is_told_as_one() -> None:
    class Ended(World):
        def step(self, action: int) -> Any:
            raise StopIteration("no more data")

    with pytest.raises(RuntimeError, match=r"the environment raised StopIteration\('no more data'\)"):
        bdqn.make("random", Ended, buffer_size=100).learn(1)
