"""Environments name their actions, so that a page can."""

from __future__ import annotations

import pytest

from bdqn.envs import make_env


@pytest.mark.parametrize(
    ("env_id", "names"),
    [
        ("ALE/Pong-v5", ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]),
        ("MinAtar/Breakout-v1", ["no-op", "left", "right"]),
        ("MinAtar/Breakout-v0", ["no-op", "left", "up", "right", "down", "fire"]),
    ],
)
def test_actions_have_names(env_id: str, names: list[str]) -> None:
    env = make_env(env_id)
    assert env.unwrapped.get_action_meanings() == names  # type: ignore[attr-defined]
    assert len(names) == env.action_space.n  # type: ignore[attr-defined]
    env.close()
