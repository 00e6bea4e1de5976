"""From what a user types to an environment, or to a message that helps."""

import subprocess
import sys
from typing import Any

import gymnasium as gym
import pytest

from bdqn.envs import (
    AtariEnv,
    AtariSettings,
    DeepSea,
    MissingExtra,
    UnknownEnvironment,
    describe,
    family,
    find_spec,
    make_atari,
    make_env,
)


def test_an_id_a_function_or_an_environment() -> None:
    env = make_env("CartPole-v1")
    assert make_env(env) is env
    assert isinstance(make_env(DeepSea), DeepSea)
    assert family("CartPole-v1") == family(env) == family("bdqn/DeepSea-v0") == "classic"


def test_arguments_reach_the_environment_and_time_limits_stay() -> None:
    env = make_env("FrozenLake-v1", env_kwargs={"is_slippery": False})
    env.reset(seed=0)
    assert env.step(1)[0] == 4  # straight down
    assert env.spec is not None
    assert env.spec.max_episode_steps == 100
    assert describe(env) == "truncated after 100 decisions"
    assert "PassiveEnvChecker" not in str(env)  # str names all wrappers


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("CartPole", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPole-v7", "CartPole-v1"),
        ("MinAtar/Brekout-v1", "MinAtar/Breakout-v1"),
        ("DeepSea-v0", "bdqn/DeepSea-v0"),
    ],
)
def test_a_mistyped_id_names_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(UnknownEnvironment, match=rf"; did you mean {meant}.*\?$"):
        make_env(typed)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("Pong", "ALE/Pong-v5"), ("pong-v5", "ALE/Pong-v5"), ("PongNoFrameSkip-v4", "PongNoFrameskip-v4")],
)
def test_a_mistyped_atari_id_names_the_nearest(typed: str, meant: str) -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    with pytest.raises(UnknownEnvironment, match=rf"; did you mean {meant}.*\?$"):
        make_env(typed)


def test_what_resembles_nothing_is_just_unknown() -> None:
    with pytest.raises(UnknownEnvironment, match=r"^Unknown environment 'qqqqqqqqqqqq'\.$"):
        family("qqqqqqqqqqqq")


def test_a_time_limit_that_is_not_registered_is_not_denied() -> None:
    """MiniGrid truncates episodes itself, which its registration does not say."""
    assert describe(make_env("MiniGrid-Empty-5x5-v0")) == "no time limit registered"
    assert describe(make_env("CartPole-v1")) == "truncated after 500 decisions"


def test_an_id_may_name_the_module_that_registers_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "corridors.py").write_text(
        "import gymnasium\ngymnasium.register('Long-v0', entry_point='bdqn.envs.deep_sea:DeepSea')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert isinstance(make_env("corridors:Long-v0").unwrapped, DeepSea)
    finally:
        gym.registry.pop("Long-v0", None)


@pytest.mark.parametrize(
    "options",
    [
        {"protocol": "nature"},
        {"max_episode_frames": 0},
        {"life_loss_is_terminal": False},
        {"rgb_mean": True},
        {"bilinear": True},
    ],
)
def test_atari_options_are_for_atari(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"CartPole-v1 is not an Atari environment: it has no {name}"):
        make_env("CartPole-v1", **options)
    with pytest.raises(ValueError, match=name):
        make_env(DeepSea(), **options)


def test_arguments_cannot_be_given_to_an_environment_that_is_made() -> None:
    with pytest.raises(ValueError, match="size"):
        make_env(DeepSea, env_kwargs={"size": 3})


def test_an_unknown_protocol_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'nature'"):
        AtariSettings("Natur").resolve()


def test_missing_packages_are_named_by_the_extra_that_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minatar", None)
    with pytest.raises(MissingExtra, match=r"pip install -c constraints\.txt -e '\.\[minatar\]'"):
        make_env("MinAtar/Breakout-v1")

    monkeypatch.setitem(sys.modules, "ale_py", None)
    for env_id in ("ALE/Pong-v5", "PongNoFrameskip-v4"):
        monkeypatch.delitem(gym.registry, env_id, raising=False)
        with pytest.raises(MissingExtra, match=r"pip install -c constraints\.txt -e '\.\[atari\]'"):
            make_env(env_id)
    with pytest.raises(UnknownEnvironment):  # not an Atari id: the extra would not help
        make_env("CartPole")


def test_opencv_comes_with_the_atari_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtra, match=r"pip install -c constraints\.txt -e '\.\[atari\]' \(cv2"):
        make_atari("pong")


def test_atari_from_an_id() -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    env = make_env("ALE/Pong-v5", protocol="machado", env_kwargs={"full_action_space": True})
    assert isinstance(env, AtariEnv)
    assert env.action_space == gym.spaces.Discrete(18)
    assert family("ALE/Pong-v5") == family("PongNoFrameskip-v4") == family(env) == "atari"
    assert describe(env) == env.description
    with pytest.raises(UnknownEnvironment, match="CartPole-v1 is not an Atari environment"):
        make_atari("CartPole-v1")


def test_looking_up_a_known_id_imports_nothing_optional() -> None:
    code = (
        "import sys, bdqn.envs; bdqn.envs.family('CartPole-v1'); print({'ale_py', 'cv2', 'minatar'} & {*sys.modules})"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "set()"
    assert find_spec("CartPole-v1").id == "CartPole-v1"
