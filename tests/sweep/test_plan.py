"""Sweep files: what they mean, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.cli.sweep import default_out
from bdqn.config.settings import SettingError
from bdqn.sweep.plan import Sweep, Trial, read_scales, read_sweep

GOOD = """
steps = 1_000
seeds = 3
environments = ["CartPole-v1", "MinAtar/Breakout-v1"]

[training]
learning_rate = 1e-3

[agents.bdqn]

[agents.careful]
agent = "ddqn"
exploration_final_eps = [0.1, 0.01]
"""


QUICK = """
[scales.quick]
steps = 100
seeds = [1]
environments = ["CartPole-v1"]

[scales.short]
steps = 200
"""


@pytest.fixture
def write(tmp_path: Path) -> Path:
    return tmp_path / "sweep.toml"


def read(path: Path, text: str) -> Sweep:
    path.write_text(text)
    return read_sweep(path)


def test_a_file_means_every_combination(write: Path) -> None:
    sweep = read(write, GOOD)
    assert sweep.steps == 1_000
    assert len(sweep.trials) == 2 * 3 * 3  # environments, groups, seeds
    groups = ["bdqn", "careful exploration_final_eps=0.1", "careful exploration_final_eps=0.01"]
    assert list(dict.fromkeys(trial.group for trial in sweep.trials)) == groups
    assert {trial.seed for trial in sweep.trials} == {0, 1, 2}
    assert {trial.agent for trial in sweep.trials} == {"bdqn", "ddqn"}
    assert all(trial.settings["learning_rate"] == 1e-3 for trial in sweep.trials)
    assert {trial.settings.get("exploration_final_eps") for trial in sweep.trials} == {None, 0.1, 0.01}


def test_a_grid_in_training_is_shared_by_all_agents(write: Path) -> None:
    sweep = read(write, GOOD.replace("learning_rate = 1e-3", "learning_rate = [1e-3, 1e-4]"))
    assert len(sweep.trials) == 2 * 6 * 3
    assert "bdqn learning_rate=0.0001" in {trial.group for trial in sweep.trials}


def test_a_trials_name_depends_on_its_configuration_and_on_nothing_else(write: Path) -> None:
    names = {(t.group, t.env, t.seed): t.name for t in read(write, GOOD).trials}
    assert len(set(names.values())) == len(names)
    longer = GOOD.replace("1_000", "9_000").replace("seeds = 3", "seeds = [1, 7]").replace("agents.bdqn", "agents.b")
    longer = longer.replace("[agents.b]", '[agents.b]\nagent = "bdqn"')
    again = {(t.group, t.env, t.seed): t.name for t in read(write, longer).trials}
    assert again["b", "CartPole-v1", 1] == names["bdqn", "CartPole-v1", 1]
    for change in ("learning_rate = 2e-3", "gamma = 0.9", "buffer_size = 5_000"):
        changed = read(write, GOOD.replace("learning_rate = 1e-3", change))
        assert not {t.name for t in changed.trials} & set(names.values())
    slower = read(write, "threads = 2\n" + GOOD)
    assert not {t.name for t in slower.trials} & set(names.values())


def test_what_the_preset_says_is_part_of_the_name(write: Path) -> None:
    """Should a later version have another preset, its trials are others."""
    trial = read(write, GOOD).trials[0]
    assert trial.values["gamma"] == 0.99
    assert "gamma" not in trial.settings


def test_a_trial_knows_its_command(write: Path, tmp_path: Path) -> None:
    trial = read(write, GOOD + "\n[schedule]\nsave_replay = false\n").trials[-1]
    words = trial.command(tmp_path / "run")
    assert words[0] == "train"
    pairs = dict(zip(words[2::2], words[3::2], strict=True))
    assert pairs["--env"] == "MinAtar/Breakout-v1"
    assert pairs["--exploration-final-eps"] == "0.01"
    assert pairs["--save-replay"] == "false"
    assert pairs["--steps"] == "1000"
    assert "--device" not in words
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").touch()
    assert trial.command(tmp_path / "run")[:2] == ["resume", str(tmp_path / "run")]


def test_environments_of_a_sweep_can_be_supervised(write: Path, tmp_path: Path) -> None:
    plain = read(write, GOOD).trials[0]
    assert plain.name == read(write, GOOD + "\n[supervision]\n").trials[0].name
    trial = read(write, GOOD + "\n[supervision]\nrestart_env = 3\nstep_timeout = 2.5\n").trials[0]
    assert trial.name != plain.name
    words = trial.command(tmp_path)
    pairs = dict(zip(words[2::2], words[3::2], strict=True))
    assert (pairs["--restart-env"], pairs["--step-timeout"]) == ("3", "2.5")


def test_supervision_renames_no_trial_of_a_sweep_without_it() -> None:
    assert Trial("bdqn", "bdqn", "CartPole-v1", 3, 100, schedule={"eval_freq": 5}).name == "8ed154ccdfc7c88f"


def test_a_scale_is_a_part_of_the_full_sweep(write: Path) -> None:
    full = read(write, GOOD + QUICK)
    assert (full.steps, len(full.trials)) == (1_000, 18)
    quick, short = (read_sweep(write, scale) for scale in ("quick", "short"))
    assert (quick.steps, short.steps) == (100, 200)
    assert {(trial.env, trial.seed) for trial in quick.trials} == {("CartPole-v1", 1)}
    names = {trial.name for trial in full.trials}
    assert len(quick.trials) == 3
    assert {trial.name for trial in quick.trials} < names  # the same trials: the full sweep goes on with them
    assert [trial.name for trial in short.trials] == [trial.name for trial in full.trials]
    assert [*read_scales(write)] == ["full", "quick", "short"]
    assert names == {trial.name for trial in read(write, GOOD).trials}  # and naming scales renames no trial


def test_several_scales_are_one_sweep_whose_trials_have_their_own_lengths(write: Path) -> None:
    write.write_text(GOOD + QUICK)
    quick, short, both = (read_sweep(write, scale) for scale in ("quick", "short", "quick,short"))
    assert {trial.name: trial.steps for trial in both.trials} == {trial.name: 200 for trial in short.trials}
    assert {trial.name for trial in quick.trials} < {trial.name for trial in both.trials}
    longer = QUICK.replace("steps = 100", "steps = 900")
    write.write_text(GOOD + longer)
    lengths = {trial.name: trial.steps for trial in read_sweep(write, "short,quick").trials}
    assert lengths == {trial.name: 200 for trial in short.trials} | {trial.name: 900 for trial in quick.trials}


def test_the_device_is_no_part_of_a_trials_name(write: Path, tmp_path: Path) -> None:
    """What a GPU has begun, another machine can go on with."""
    plain, elsewhere = read(write, GOOD), read(write, 'device = "cuda:1"\n' + GOOD)
    assert [trial.name for trial in plain.trials] == [trial.name for trial in elsewhere.trials]
    assert (plain.devices, elsewhere.devices, plain.on("cuda").devices) == (set(), {"cuda:1"}, {"cuda"})
    trial = elsewhere.trials[0]
    assert trial.command(tmp_path)[-2:] == ["--device", "cuda:1"]
    (tmp_path / "config.toml").touch()
    assert trial.command(tmp_path)[-2:] == ["--device", "cuda:1"]
    assert "--device" not in plain.trials[0].command(tmp_path)  # it stays where it was


def test_a_scale_that_a_file_does_not_have(write: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write.write_text(GOOD + QUICK)
    assert main(["sweep", str(write), "--out", str(tmp_path / "out"), "--scale", "quik"]) == 2
    assert f"{write}: unknown scale 'quik'; did you mean quick" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


WRONG = {
    "unknown key of a scale": (
        GOOD + QUICK.replace("seeds", "seads"),
        "scales.quick: unknown key 'seads'; did you mean seeds",
    ),
    "a scale with a setting": (
        GOOD + QUICK + "num_envs = 2\n",
        "scales.short: unknown key 'num_envs'; known: environments, seeds, steps",
    ),
    "a bad value in a scale": (GOOD + QUICK.replace("100", '"few"'), "scales.quick: steps cannot be 'few'"),
    "a scale without steps": (GOOD + QUICK.replace("100", "0"), "scales.quick: steps must be given and not empty"),
    "a longer scale": (GOOD + QUICK.replace("200", "2_000"), "scales.short: steps must be at most the file's 1,000"),
    "a scale with other seeds": (
        GOOD + QUICK.replace("[1]", "[1, 7]"),
        "scales.quick: seeds must be among the file's; these are not: 7",
    ),
    "a scale with more seeds": (
        GOOD + QUICK.replace("[1]", "4"),
        "scales.quick: seeds must be among the file's; these are not: 3",
    ),
    "a scale with bad seeds": (GOOD + QUICK.replace("[1]", "[-1]"), "scales.quick: seeds must be a number of seeds"),
    "a scale elsewhere": (
        GOOD + QUICK.replace("CartPole-v1", "CartPoel-v1"),
        "scales.quick: CartPoel-v1 is not among the file's environments; did you mean CartPole-v1",
    ),
    "a scale nowhere": (
        GOOD + QUICK.replace('"CartPole-v1"', ""),
        "scales.quick: environments must be given and not empty",
    ),
    "a scale called full": (
        GOOD + QUICK.replace("quick", "full"),
        "scales.full: this name is reserved for the whole file",
    ),
    "an empty scale": (
        GOOD + "[scales.quick]\n",
        "scales.quick: a scale must be a table with some of steps, seeds, environ",
    ),
    "a scale that is no table": (
        GOOD + "[scales]\nquick = 3\n",
        "scales.quick: a scale must be a table with some of steps",
    ),
    "unknown key": (GOOD.replace("steps", "stesp"), "unknown key 'stesp'; did you mean steps"),
    "unknown agent": (
        GOOD.replace("agents.bdqn", "agents.bdnq"),
        "agents.bdnq on CartPole-v1: Unknown agent 'bdnq'; did you mean bdqn",
    ),
    "unknown setting": (
        GOOD.replace("learning_rate", "lerning_rate"),
        "has no setting 'lerning_rate'; did you mean learning_rate",
    ),
    "another agent's setting": (
        GOOD.replace("[agents.bdqn]", "[agents.bdqn]\ndropout_rate = 0.1"),
        "bdqn has no setting 'dropout_rate'",
    ),
    "unknown schedule": (GOOD + "[schedule]\nevl_freq = 5\n", "schedule has no key 'evl_freq'; did you mean eval_freq"),
    "unknown supervision": (GOOD + "[supervision]\nrestarts = 5\n", "supervision has no key 'restarts'; "),
    "bad supervision": (GOOD + "[supervision]\nrestart_env = -1\n", "restart_env must be at least 0"),
    "bad schedule": (GOOD + "[schedule]\nkeep = 0\n", "keep must be at least 1"),
    "bad value": (GOOD.replace("1e-3", '"fast"'), "learning_rate must be float, not 'fast'"),
    "bad grid value": (
        GOOD.replace("[0.1, 0.01]", "[0.1, 7.0]"),
        "exploration_final_eps must be between 0 and 1, not 7.0",
    ),
    "empty grid": (GOOD.replace("[0.1, 0.01]", "[]"), "exploration_final_eps is an empty list"),
    "no agents": (GOOD.split("[agents.bdqn]")[0], "agents must be given and not empty"),
    "no environments": (
        GOOD.replace('"CartPole-v1", "MinAtar/Breakout-v1"', ""),
        "environments must be given and not empty",
    ),
    "no seeds": (GOOD.replace("seeds = 3", "seeds = []"), "seeds must be given and not empty"),
    "negative seed": (GOOD.replace("seeds = 3", "seeds = [0, -1]"), "seeds must be a number of seeds or a list"),
    "a seed twice": (
        GOOD.replace("seeds = 3", "seeds = [1, 1]"),
        "two trials are identical: bdqn and bdqn on CartPole-v1, seed 1",
    ),
    "a group twice": (
        GOOD + '[agents.other]\nagent = "bdqn"\n',
        "two trials are identical: bdqn and other on CartPole-v1, seed 0",
    ),
    "the preset's own value": (
        GOOD + '[agents.other]\nagent = "bdqn"\ngamma = 0.99\n',
        "two trials are identical: bdqn and other on CartPole-v1, seed 0",
    ),
    "a value written twice": (
        GOOD.replace("[0.1, 0.01]", "[1, 1.0]"),
        "two trials are identical: careful exploration_final_eps=1 and careful exploration_final_eps=1.0",
    ),
    "a name twice": (
        GOOD + "[agents.'careful exploration_final_eps=0.1']\nagent = 'dqn'\n",
        "two groups are named careful exploration_final_eps=0.1",
    ),
    "no name": (
        GOOD.replace("agents.careful", "agents.''"),
        "agents.'': a name must have 1 to 80 printable characters",
    ),
    "a name of two lines": (GOOD.replace("agents.careful", 'agents."a\\nb"'), "agents.'a\\nb': a name must have"),
    "a long name": (GOOD.replace("agents.careful", f"agents.{'x' * 81}"), ": a name must have 1 to 80 printable"),
    "several agents": (
        GOOD.replace('"ddqn"', '["ddqn", "dqn"]'),
        "agents.careful: agent must be the name of one agent",
    ),
    "an agent that is a number": (GOOD.replace('"ddqn"', "3"), "agent must be the name of one agent, not 3"),
    "seeds in words": (GOOD.replace("seeds = 3", "seeds = true"), "seeds cannot be True"),
    "a seed that is no integer": (GOOD.replace("seeds = 3", "seeds = [1.0]"), "or a list of integers of at least 0"),
    "too many seeds": (GOOD.replace("seeds = 3", "seeds = 1_000_000_000"), "there can be at most 10,000 seeds"),
    "a nested list": (GOOD.replace("[0.1, 0.01]", "[[0.1], [0.01]]"), "exploration_final_eps must be float, not [0.1]"),
    "no steps": (GOOD.replace("1_000", "0"), "steps must be given and not empty"),
    "too many threads": ("threads = 100_000\n" + GOOD, "threads must be between 1 and"),
    "negative steps": (GOOD.replace("1_000", "-5"), "steps must be at least 1, not -5"),
    "too many environments": ("num_envs = 100_000_000\n" + GOOD, "num_envs must be at most 4096, not 100000000"),
    "no module": (GOOD.replace("CartPole-v1", "my games:Grid-v0"), "'my games:Grid-v0' is not a valid Gymnasium id"),
    "steps in words": (GOOD.replace("1_000", '"many"'), "steps cannot be 'many'"),
    "no table": (GOOD.replace("[agents.bdqn]", "[agents]\nbdqn = 3"), "agents.bdqn must be a table, not 3"),
    "unknown preset": ('preset = "papre"\n' + GOOD, "Unknown preset 'papre'; did you mean paper"),
    "no TOML": (GOOD + "[agents", "is not a valid TOML file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_file_is_refused_with_file_and_key(
    write: Path, tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message = WRONG[case]
    write.write_text(text)
    with pytest.raises(SettingError) as error:
        read_sweep(write)
    assert str(write) in str(error.value)
    assert message in str(error.value)
    assert main(["sweep", str(write), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("CartPoel-v1", "Unknown environment 'CartPoel-v1'; did you mean CartPole-v1"),
        ("Pendulum-v1", "Pendulum-v1 has the action space Box"),
    ],
)
def test_an_environment_that_will_not_do_is_refused_before_anything_starts(
    write: Path, tmp_path: Path, env: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write.write_text(GOOD.replace("CartPole-v1", env))
    assert main(["sweep", str(write), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_sweep_files_beside_each_other_have_directories_of_their_own() -> None:
    assert default_out(Path("experiments/minatar/sweep.toml")) == Path("out/minatar")
    assert default_out(Path("experiments/minatar/floors.toml")) == Path("out/minatar-floors")


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(tmp_path / "none.toml")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err


def test_structured_observations_can_be_swept(write: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write.write_text('steps = 10\nseeds = 1\nenvironments = ["MiniGrid-Empty-5x5-v0"]\n[agents.random]\n')
    assert main(["sweep", str(write), "--out", str(write.parent / "out"), "--dry-run"]) == 0
    assert "random on MiniGrid-Empty-5x5-v0: " in capsys.readouterr().out
