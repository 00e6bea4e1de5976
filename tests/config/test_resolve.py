"""From a name, a preset and overrides to a configuration."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from typing import Any

import pytest

from bdqn.agents import AGENTS
from bdqn.config.preset_files import FAMILIES, preset_names, read_preset
from bdqn.config.resolve import configure, known_settings, recipe_named
from bdqn.config.settings import SettingError, Training, settings_of
from bdqn.envs.settings import AtariSettings

# What a user can pass as preset in each family.
PRESETS = [
    (family, short)
    for family in FAMILIES
    for short in sorted({name.removesuffix(f"-{family}") for name in preset_names()})
    if not short.startswith("default-")
]


def content_of(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("bdqn.config") / "presets" / f"{name}.toml").read_text())


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(("family", "preset"), PRESETS)
def test_every_preset_holds_for_every_agent_and_family(agent: str, family: str, preset: str) -> None:
    configuration = configure(agent, family, preset)
    known = known_settings(agent, family)
    assert configuration.values.keys() == known.keys() == configuration.sources.keys()
    assert configuration.total_steps > 0
    assert configuration.preset in preset_names()
    for name, value in configuration.values.items():
        known[name].check(value)
        assert configuration.sources[name].strip(), name


def test_every_family_has_defaults_of_its_own() -> None:
    assert {f"default-{family}" for family in FAMILIES} <= set(preset_names())


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_names_only_settings_that_exist_and_says_where_each_is_from(name: str) -> None:
    """A mistyped key would otherwise be ignored."""
    content = content_of(name)
    assert content.pop("summary")
    assert isinstance(content.pop("total_steps"), int)
    assert content.pop("agent") in AGENTS
    training, environment = set(settings_of(Training)), set(settings_of(AtariSettings))
    for table, entries in content.items():
        known = {"training": training, "environment": environment}.get(table)
        if known is None:
            known = set(settings_of(recipe_named(table).settings))
            assert entries.pop("like", table) in content, table
            own_training = entries.pop("training", {})
            assert own_training.keys() <= training, table
            entries = [*entries.items(), *own_training.items()]
            known |= training
        else:
            entries = list(entries.items())
        for key, entry in entries:
            assert key in known, f"{table}.{key}"
            assert entry.keys() == {"value", "source"}, f"{table}.{key}"
            assert entry["source"].strip(), f"{table}.{key}"


def test_a_preset_may_change_what_agents_share_for_one_of_them() -> None:
    bdqn, ddqn = configure("bdqn", "atari", "paper"), configure("ddqn", "atari", "paper")
    assert bdqn.training.learning_rate == 0.0025
    assert ddqn.training.learning_rate == 0.00025
    differs = {name for name, value in bdqn.values.items() if ddqn.values.get(name, value) != value}
    assert differs == {"learning_rate"}


def test_an_agent_that_is_like_another_has_its_values_where_it_has_the_same_settings() -> None:
    ucb, bdqn = (configure(agent, "classic") for agent in ("ucb", "bdqn"))
    shared = ucb.values.keys() & bdqn.values.keys()
    assert {"prior_var", "noise_var", "posterior_batch_size"} <= shared
    assert {name: ucb.values[name] for name in shared} == {name: bdqn.values[name] for name in shared}
    assert ucb.sources["noise_var"] == bdqn.sources["noise_var"]
    assert configure("ls-dqn", "minatar").values["exploration_decay_steps"] == 20_000
    assert configure("ucb", "atari", "paper").training.learning_rate == 0.0025  # also what is shared by all


@pytest.mark.parametrize("agent", ["bdqn", "bdqn-deep"])
@pytest.mark.parametrize(("family", "preset"), PRESETS)
def test_epsilon_of_the_bayesian_agents_is_double_dqns(agent: str, family: str, preset: str) -> None:
    """Whom one is like may be like another: bdqn-deep is like bdqn, which is like ddqn."""
    ours, theirs = (configure(name, family, preset) for name in (agent, "ddqn"))
    for name in ("exploration_initial_eps", "exploration_final_eps", "exploration_decay_steps"):
        assert (ours.values[name], ours.sources[name]) == (theirs.values[name], theirs.sources[name])


def test_the_papers_numbers() -> None:
    values = configure("bdqn", "atari", "paper").values
    table = {
        "batch_size": 32,
        "buffer_size": 1_000_000,
        "target_update_interval": 10_000,
        "posterior_update_interval": 100_000,
        "posterior_batch_size": 100_000,
        "sample_interval": 1_000,
        "prior_var": 0.001,
        "noise_var": 1.0,
        "features": 512,
        "noise": "fixed",
        "loss_head": "draw",
        "protocol": "dqn",
    }
    assert {name: values[name] for name in table} == table


@pytest.mark.parametrize("preset", ["default", "paper", "reference-code"])
def test_on_atari_all_members_learn_from_everything_and_vote(preset: str) -> None:
    """As in Osband et al. (2016), whose Atari agent the paper's Table 2 cites."""
    values = configure("bootstrapped", "atari", preset).values
    assert (values["mask_probability"], values["evaluation"]) == (1.0, "vote")


@pytest.mark.parametrize("preset", ["paper", "reference-code"])
def test_beside_the_papers_agent_noisynet_has_the_target_of_the_scores_that_it_cites(preset: str) -> None:
    assert configure("noisy", "atari", preset).values["td_target"] == "max"


def test_what_the_user_sets_wins_and_is_said_to_be_theirs() -> None:
    overrides = {"learning_rate": 0.5, "prior_var": 7.0, "protocol": "machado", "mlp_layers": 1}
    configuration = configure("bdqn", "atari", "paper", overrides)
    assert configuration.training.learning_rate == 0.5
    assert configuration.agent_settings.prior_var == 7.0
    assert configuration.atari.protocol == "machado"
    for name in overrides:
        assert configuration.sources[name] == "set by you"
    assert configuration.sources["noise_var"].startswith("paper")
    assert configuration.sources["timeout_is_terminal"] == "built in"


def test_the_same_choices_compare_equal_wherever_they_came_from() -> None:
    paper = configure("bdqn", "atari", "paper")
    assert configure("bdqn", "atari", "paper", {"learning_rate": 0.0025}) == paper
    assert configure("bdqn", "atari", "paper", {"learning_rate": 0.003}) != paper


@pytest.mark.parametrize("family", ["classic", "minatar"])
def test_atari_settings_exist_only_for_atari(family: str) -> None:
    assert "protocol" not in configure("bdqn", family, "paper").values
    with pytest.raises(SettingError, match="no setting 'protocol'"):
        configure("bdqn", family, "paper", {"protocol": "machado"})


def test_values_are_checked() -> None:
    with pytest.raises(SettingError, match="gamma must be between 0 and 1"):
        configure("ddqn", "classic", overrides={"gamma": 1.5})
    with pytest.raises(SettingError, match="optimizer must be one of adam, rmsprop"):
        configure("ddqn", "classic", overrides={"optimizer": "sgd"})


@pytest.mark.parametrize(
    ("agent", "preset", "overrides", "says"),
    [
        ("bdqnn", "default", {}, "Unknown agent 'bdqnn'; did you mean bdqn"),
        ("bdqn", "papr", {}, "Unknown preset 'papr'; did you mean paper"),
        ("bdqn", "defaults", {}, "Unknown preset 'defaults'; did you mean default"),
        ("bdqn", "default", {"pior_var": 1.0}, "bdqn has no setting 'pior_var'; did you mean prior_var"),
        ("ddqn", "default", {"prior_var": 1.0}, "ddqn has no setting 'prior_var'"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(
    agent: str, preset: str, overrides: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        configure(agent, "classic", preset, overrides)


def test_a_preset_is_read_for_the_family_or_for_all() -> None:
    assert read_preset("default", "minatar")["file"] == "default-minatar"
    assert read_preset("paper", "minatar")["file"] == "paper"


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("minatar", {"noise_var": 0.1}, "noise_var has an effect only with noise = fixed, but noise is inverse-gamma"),
        (
            "classic",
            {"noise_scale": 0.1},
            "noise_scale has an effect only with noise = inverse-gamma, but noise is fixed",
        ),
        ("classic", {"sample_interval": 10}, "sample_interval has an effect only with redraw = steps"),
        (
            "classic",
            {"exploration_final_eps": 0.1},
            "set acting = epsilon-greedy too, or omit",
        ),
        (
            "classic",
            {"acting": "mean", "ucb_scale": 2.0},
            "ucb_scale has an effect only with acting = ucb",
        ),
    ],
)
def test_what_nobody_would_read_cannot_be_set(family: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        configure("bdqn", family, "default", settings)


def test_what_its_switch_makes_count_can_be_set_and_a_saved_run_has_all_settings() -> None:
    chosen = configure("bdqn", "minatar", "default", {"noise": "fixed", "noise_var": 0.1})
    assert configure("bdqn", "minatar", "default", saved=chosen.values) == chosen
    with pytest.raises(SettingError, match="noise_scale has an effect only with"):
        configure("bdqn", "minatar", "default", {"noise_scale": 1.0}, saved=chosen.values)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_switch_is_a_setting_and_has_the_value_that_is_needed(agent: str) -> None:
    known = settings_of(recipe_named(agent).settings)
    for name, (switch, needed) in getattr(recipe_named(agent).settings, "READ_WITH", {}).items():
        assert name in known
        assert needed in known[switch].choices
