"""Environments that cannot be handled are refused in one sentence that says what to do."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Sequence, Space, Text, Tuple

from bdqn.envs import UnsupportedSpace, check_spaces


class World(gym.Env[Any, Any]):
    """Only its spaces matter."""

    def __init__(self, observations: Space[Any], actions: Space[Any]) -> None:
        self.observation_space, self.action_space = observations, actions


@pytest.mark.parametrize("observations", [Box(0, 1, (3,)), Box(0, 255, (4, 8, 8), np.uint8), Discrete(4)])
def test_arrays_and_numbers_are_accepted(observations: Space[Any]) -> None:
    check_spaces(World(observations, Discrete(2)))


@pytest.mark.parametrize("actions", [Box(-1, 1, (2,)), Text(3)])
def test_actions_must_be_discrete(actions: Space[Any]) -> None:
    with pytest.raises(UnsupportedSpace, match="discretise") as error:
        check_spaces(World(Discrete(2), actions))
    assert str(error.value).startswith(f"World has the action space {actions}, ")


@pytest.mark.parametrize("actions", [Tuple([Discrete(2), Discrete(3)]), Dict(arm=Discrete(2))])
def test_several_discrete_actions_are_to_be_one_space(actions: Space[Any]) -> None:
    with pytest.raises(UnsupportedSpace, match=r"actions: make it a MultiDiscrete, with one number for each part.$"):
        check_spaces(World(Discrete(2), actions))


@pytest.mark.parametrize(
    ("shape", "says"), [((), r"declare shape \(1,\)"), ((0,), "observe a constant if there is nothing to observe")]
)
def test_an_observation_has_an_axis_and_a_number(shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(UnsupportedSpace, match=f"at least one axis and one number: {says}.$"):
        check_spaces(World(Box(0, 1, shape), Discrete(2)))


@pytest.mark.parametrize("observations", [Sequence(Discrete(2)), Text(3)])
def test_observations_must_be_arrays(observations: Space[Any]) -> None:
    with pytest.raises(UnsupportedSpace, match="TransformObservation") as error:
        check_spaces(World(observations, Discrete(2)))
    assert str(error.value).startswith(f"World has the observation space {observations}, ")


def test_a_discrete_space_holds_something() -> None:
    none = Discrete(2)
    none.n = np.int64(-1)
    for kind, world in (("action", World(Discrete(2), none)), ("observation", World(none, Discrete(2)))):
        with pytest.raises(
            UnsupportedSpace, match=rf"^World has the {kind} space Discrete\(-1\), .* one {kind}: raise n"
        ):
            check_spaces(world)


def test_a_registered_environment_is_called_by_its_id() -> None:
    with pytest.raises(UnsupportedSpace, match=r"^Pendulum-v1 has the action space Box"):
        check_spaces(gym.make("Pendulum-v1"))
