"""Where action masks come from, and which of them are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import bdqn
from bdqn.envs import BadAnswer, Environments, EnvironmentWarning, make_env
from bdqn.envs.check import check_env
from bdqn.storage.state_files import from_files, to_files
from support.masked import Masked, MaskedByMethod, MaskedTwice
from support.worlds import World, world

MASK = np.array([True, False])


def masks_in(reset: Any = None, step: Any = None, **changes: Any) -> type[World]:
    """A World that gives these masks in its infos; None: no key."""

    def at_reset(self: World, **given: Any) -> Any:
        observation, info = World.reset(self, **given)
        return observation, info if reset is None else {"action_mask": reset}

    def at_step(self: World, action: Any) -> Any:
        *answer, info = World.step(self, action)
        return *answer, info if step is None else {"action_mask": step}

    return world(reset=at_reset, step=at_step, **changes)


REFUSED = {
    'step() of Odd gave no info["action_mask"], unlike its first reset(): give it at every': masks_in(MASK, None),
    'step() of Odd gave info["action_mask"], unlike its first reset(): give it at every': masks_in(None, MASK),
    'info["action_mask"] of Odd is an array of bool of shape (3,), but must hold 2 numbers': masks_in(np.ones(3, bool)),
    'info["action_mask"] of Odd is a list of length 2, but must hold 4 numbers, one for each combination of actions: 1 '
    "where": masks_in([1, 1], action_space=spaces.MultiDiscrete([2, 2])),
    'info["action_mask"] of Odd is an array of object of shape (), but must hold 2': masks_in(MASK, np.array(None)),
    'info["action_mask"] of Odd is a list of length 2, but must': masks_in([[1], [2, 3]]),
    'info["action_mask"] of Odd holds -1, but must hold 1 where': masks_in([1, -1]),
    'info["action_mask"] of Odd holds 0.5, but must hold 1 where': masks_in([0.5, 1]),
    'info["action_mask"] of Odd holds nan, but must hold 1 where': masks_in([1, np.nan]),
    'info["action_mask"] of Odd is a Tensor, but must hold 2': masks_in(torch.ones(2, requires_grad=True)),
    "action_masks of Odd is an array of bool of shape (2,), but must be a method that gives": world(action_masks=MASK),
    'info["action_mask"] of Odd allows no action, though the episode has not terminated: allow': masks_in(MASK, [0, 0]),
    "action_masks() of Odd allows no action": world(action_masks=lambda self: np.zeros(2)),
    "action_masks() of Odd is an array of float64 of shape (1, 2), but": world(
        action_masks=lambda self: np.ones((1, 2))
    ),
    'After step(), info["action_mask"] and action_masks() of Odd allow different actions: they must agree': masks_in(
        MASK, ~MASK, action_masks=lambda self: MASK
    ),
}


@pytest.mark.parametrize(("says", "source"), REFUSED.items())
def test_masks_that_cannot_be_obeyed_are_refused_in_a_sentence(says: str, source: type[World]) -> None:
    with pytest.raises(BadAnswer) as caught:
        bdqn.make("random", source, buffer_size=100).learn(3)
    assert says in str(caught.value)
    assert str(caught.value).count(". ") == 0
    assert str(caught.value).endswith(".")


OFFERING, BY_METHOD = masks_in(MASK, MASK), world(action_masks=lambda self: MASK)
SOME = {
    'reset() of Odd in environment 1 gave no info["action_mask"], unlike environment 0: give it in all environments, '
    "at every reset and every step, or never.": (OFFERING, World),
    'reset() of World in environment 1 gave info["action_mask"], unlike environment 0': (World, OFFERING),
    'step() of Odd in environment 1 gave no info["action_mask"], unlike environment 0': (
        OFFERING,
        masks_in(MASK, None),
    ),
    "World in environment 1 has no method action_masks(), unlike environment 0: give it to all": (BY_METHOD, World),
    "Odd in environment 1 has a method action_masks(), unlike environment 0: give it to all": (World, BY_METHOD),
}


@pytest.mark.parametrize(("says", "sources"), SOME.items())
def test_an_environment_that_offers_masks_beside_one_that_does_not_is_refused(
    says: str, sources: tuple[type[World], type[World]]
) -> None:
    with pytest.raises(BadAnswer) as caught:
        Environments([source() for source in sources], [0, 1]).step([0, 0])
    assert says in str(caught.value)


def test_environments_of_a_vector_that_do_not_offer_masks_alike_are_refused() -> None:
    envs = SyncVectorEnv([OFFERING, World], autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(BadAnswer, match=r"of Odd in environment 1 gave no info\[.*\], unlike environment 0: give it"):
        bdqn.make("random", envs, buffer_size=100)


def test_an_error_in_the_method_is_told_as_one_of_the_environments() -> None:
    def broken(self: World) -> Any:
        raise RuntimeError("no board")

    with pytest.raises(RuntimeError, match="no board") as caught:
        Environments([world(action_masks=broken)()], [0])
    assert "action_masks() of Odd" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("source", [Masked, MaskedByMethod, MaskedTwice])
def test_masks_stand_beside_their_observations(source: type[Masked]) -> None:
    """At an end, the one of the final observation and the one where to act next are kept apart."""
    env = source()
    envs = Environments([env], [3])
    ends = {"terminated": 0, "truncated": 0}
    for _ in range(150):
        np.testing.assert_array_equal(envs.allowed, [env.mask])
        assert env.observation_space.contains(envs.obs[0])
        step = envs.step([int(envs.allowed[0].argmax())])
        assert step.allowed is not None
        assert step.next_allowed is not None
        if step.terminal[0]:
            ends["terminated"] += 1
            assert step.next_allowed.all()  # nothing is to be done there: no value depends on it
        elif step.truncated[0]:
            ends["truncated"] += 1
            assert step.next_allowed.any()
        else:
            assert step.next_allowed is step.allowed
    assert min(ends.values()) > 3


def test_a_forbidden_action_is_not_passed_on() -> None:
    envs = Environments([masks_in(MASK, MASK)()], [0])
    envs.step([0])
    with pytest.raises(ValueError, match="Action 1 is not allowed in environment 0: a policy must choose among"):
        envs.step([1])


def test_a_mask_of_a_wrapped_environment_is_found() -> None:
    envs = Environments([make_env("Taxi-v4")], [0])
    assert envs.mask_sources == 'info["action_mask"]'
    np.testing.assert_array_equal(envs.allowed[0], envs.envs[0].unwrapped.action_mask(int(envs.obs[0])))


def test_what_replaces_a_failed_environment_has_a_mask_of_its_own() -> None:
    """The decision is repeated there if it is allowed; else the first that is takes its place, and is stored."""

    class Failing(World):
        has_failed = False

        def action_masks(self) -> Any:
            return [1, 0] if self.has_failed else [0, 1]

        def step(self, action: Any) -> Any:
            assert self.action_masks()[action]
            if not self.has_failed and self.time == 2:
                type(self).has_failed = True
                raise ConnectionError("lost")
            return super().step(action)

    learner = bdqn.make("random", Failing, restart_env=1, buffer_size=100)
    with pytest.warns(EnvironmentWarning, match="was restarted"):
        learner.learn(6)
    replay = learner.agent.replay
    env, slot = replay.index()
    assert replay.gather(env, slot).action.tolist() == [1, 1, 0, 0, 0, 0]
    assert replay.allowed_at(env, slot).tolist() == [[False, True]] * 2 + [[True, False]] * 4


@pytest.mark.parametrize(
    ("masks", "says"),
    [
        (None, "action masks were saved, or are offered now, but not both"),
        (np.ones((1, 3), bool), "are not"),
        (np.zeros((1, 2), bool), "allow an action in each row"),
        (np.ones((1, 2), np.int8), "are not"),
    ],
)
def test_saved_masks_that_do_not_fit_are_refused(masks: Any, says: str) -> None:
    envs = Environments([masks_in(MASK, MASK)()], [0])
    state = from_files(*to_files(envs.state()))
    np.testing.assert_array_equal(state.pop("allowed"), [MASK])
    with pytest.raises(ValueError, match=says):
        envs.load_state({**state, **({} if masks is None else {"allowed": masks})}, [0])
    unmasked = Environments([World()], [0])
    with pytest.raises(ValueError, match="but not both"):
        unmasked.load_state({**unmasked.state(), "allowed": np.ones((1, 2), bool)}, [0])


def test_taxi_is_checked_with_allowed_actions_only() -> None:
    findings = {finding.subject: finding for finding in check_env("Taxi-v4", episodes=1)}
    assert findings["action masks"].level == "ok"
    assert 'info["action_mask"], which agents obey; ' in findings["action masks"].text
    assert findings["resume"].level == findings["seeds"].level == "ok"
    assert "from -1 to" in findings["rewards"].text  # a forbidden action costs 10
