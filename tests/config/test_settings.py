"""Settings: from text to values, and what is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bdqn.agents import AGENTS, ddqn
from bdqn.cli.train import Options
from bdqn.config.settings import ALIASES, SettingError, Training, build, nearest, setting, settings_of
from bdqn.runs.schedule import Schedule


@dataclass(frozen=True)
class Example:
    """One setting of each kind."""

    rate: float = setting(0.1, "how fast", minimum=0, maximum=1)
    steps: int = setting(10, "how many", minimum=1)
    free: float = setting(0.0, "anything finite")
    flag: bool = setting(False, "whether")
    colour: Literal["red", "blue"] = setting("red", "which")
    name: str = setting("x", "called")
    limit: int | None = setting(None, "at most", minimum=0)
    unsure: bool | None = setting(None, "whether, or as elsewhere")


KNOWN = settings_of(Example)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("steps", "100", 100),
        ("steps", "1e5", 100_000),
        ("steps", "100_000", 100_000),
        ("steps", "2.5e3", 2_500),
        ("rate", "1", 1.0),
        ("rate", "2.5e-4", 0.00025),
        ("flag", "true", True),
        ("flag", "False", False),
        ("colour", "blue", "blue"),
        ("name", "none", "none"),
        ("limit", "none", None),
        ("limit", "1e5", 100_000),
        ("unsure", "None", None),
        ("unsure", "true", True),
    ],
)
def test_text_becomes_the_value_it_means(name: str, text: str, value: Any) -> None:
    found = KNOWN[name].parse(text)
    assert found == value
    assert type(found) is type(value)
    KNOWN[name].check(found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("steps", "many"),
        ("steps", "1.5"),
        ("steps", "inf"),
        ("steps", "none"),
        ("rate", "fast"),
        ("flag", "yes"),
        ("limit", "1.5"),
    ],
)
def test_text_without_meaning_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(SettingError, match=f"^{name} must be .*{text}"):
        KNOWN[name].parse(text)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("rate", -0.1, "between 0 and 1, not -0.1"),
        ("rate", 1.5, "between 0 and 1, not 1.5"),
        ("rate", "0.1", "float, not '0.1'"),
        ("rate", True, "float, not True"),
        ("rate", math.nan, "finite"),
        ("free", math.nan, "finite"),
        ("free", math.inf, "finite"),
        ("steps", 0, "at least 1, not 0"),
        ("steps", 1.5, "int, not 1.5"),
        ("steps", True, "int, not True"),
        ("steps", None, "int, not None"),
        ("flag", 1, "bool, not 1"),
        ("colour", "green", "one of red, blue, not 'green'"),
        ("limit", -1, "at least 0"),
        ("limit", 1.5, "int or none"),
        ("name", 3, "str, not 3"),
    ],
)
def test_impossible_values_are_refused_by_name(name: str, value: Any, says: str) -> None:
    with pytest.raises(SettingError, match=f"^{name} must be .*{says}"):
        build(Example, {name: value})


@pytest.mark.parametrize(("name", "value"), [("rate", 0), ("rate", 1), ("steps", 1), ("limit", None)])
def test_both_ends_of_a_range_are_allowed(name: str, value: Any) -> None:
    assert getattr(build(Example, {name: value}), name) == value


@hypothesis_settings(deadline=None, derandomize=True)
@given(value=st.one_of(st.integers(1, 10**15), st.floats(0, 1)))
def test_what_python_prints_is_read_back(value: float) -> None:
    name = "steps" if isinstance(value, int) else "rate"
    assert KNOWN[name].parse(str(value)) == value


def test_every_setting_explains_itself() -> None:
    assert {name: KNOWN[name].help for name in ("rate", "flag")} == {"rate": "how fast", "flag": "whether"}
    assert KNOWN["colour"].choices == ("red", "blue")
    assert KNOWN["rate"].choices == KNOWN["limit"].choices == ()
    assert KNOWN["steps"].default == 10


def test_the_built_in_values_are_valid() -> None:
    for name, known in settings_of(Training).items():
        known.check(known.default)
        assert known.help, name


def test_a_loss_cannot_be_divided_by_nothing() -> None:
    with pytest.raises(SettingError, match="gradient_divisor"):
        build(Training, {"gradient_divisor": 0.0})


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("learning_rat", "did you mean learning_rate"),
        ("GAMMA", "did you mean gamma"),
        ("qqqqqq", "known: batch_size, gamma, learning_rate."),
    ],
)
def test_the_nearest_name_is_suggested(typed: str, says: str) -> None:
    assert nearest(typed, {"learning_rate", "gamma", "batch_size"}).startswith(says)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lr", "learning_rate"),
        ("alpha", "learning_rate"),
        ("discount", "gamma"),
        ("epsilon", "exploration_initial_eps or exploration_final_eps"),
        ("exploration_fraction", "exploration_decay_steps"),
        ("memory", "buffer_size"),
        ("capacity", "buffer_size"),
        ("batch", "batch_size"),
        ("n_step", "n_steps"),
        ("hidden_sizes", "features or mlp_layers"),
        ("target_update", "target_update_interval"),
        ("tau", "target_update_interval"),
    ],
)
def test_names_of_other_programs_are_understood(typed: str, meant: str) -> None:
    known = {*settings_of(Training), *settings_of(ddqn.Settings)}
    assert nearest(typed, known) == f"did you mean {meant}?"
    flags = {f"--{name.replace('_', '-')}" for name in known}
    assert nearest(f"--{typed.replace('_', '-')}", flags) == f"did you mean {_as_flags(meant)}?"


def _as_flags(names: str) -> str:
    return " or ".join(f"--{name.replace('_', '-')}" for name in names.split(" or "))


def test_what_other_names_mean_exists() -> None:
    parts = (Training, Options, Schedule, *(recipe.settings for recipe in AGENTS.values()))
    known = {"quiet", "ridge", *(name for part in parts for name in settings_of(part))}
    assert {one for meant in ALIASES.values() for one in meant.split()} <= known
    assert not known & ALIASES.keys()


def test_what_is_done_elsewhere_is_said_where_it_is_no_setting() -> None:
    assert nearest("total_timesteps", {"steps", "seed"}) == "did you mean steps?"
    assert "learn(50_000)" in nearest("total_timesteps", {"gamma"})
    assert "callback" in nearest("verbose", settings_of(Training))
