"""The command line as users meet it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

import bdqn
from bdqn.agents import AGENTS
from bdqn.cli import COMMANDS, main
from bdqn.cli.common import load_to_play
from bdqn.config.settings import settings_of
from bdqn.report.runs import read_runs
from support.cli import SMALL, Train


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that cannot be meant is told."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("bdqn: ")
    assert "Traceback" not in captured.err
    return captured.err


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints, help included."""
    with suppress(SystemExit):  # help ends so
        assert main(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        ("trian", "did you mean train?"),
        ("train --env CartPol-v1", "CartPole-v1"),
        ("train --env CartPole-v1 --agent bdnq", "did you mean bdqn"),
        ("train --env CartPole-v1 --preset papr", "did you mean paper?"),
        ("train --env CartPole-v1 --leaning-rate 1e-3", "did you mean --learning-rate"),
        ("train --env CartPole-v1 --learning_rate=1e-3", "did you mean --learning-rate"),
        ("train --env CartPole-v1 --lr 1e-3", "no flag --lr; did you mean --learning-rate?"),
        ("train --env CartPole-v1 --total-timesteps 10", "did you mean --steps?"),
        ("train --env CartPole-v1 --policy MlpPolicy", "observations determine the network"),
        ("train --env CartPole-v1 --learning-rate fast", "learning_rate must be a number, not 'fast'"),
        ("train --env CartPole-v1 --gamma 2", "gamma must be between 0 and 1"),
        ("train --env CartPole-v1 --noise gaussian", "noise must be one of fixed, inverse-gamma"),
        ("train --env CartPole-v1 --steps 0", "steps must be at least 1"),
        ("train --env CartPole-v1 --steps 100 200", "unexpected argument '200'"),
        ("train --env CartPole-v1 --seed", "--seed: expected one argument"),
        ("train --env CartPole-v1 --env-kwargs gravity", "key=value"),
        ("train --env CartPole-v1 --env-kwargs gravty=3", "gravty"),
        ("train --env CartPole-v1 --device nonsense", "device 'nonsense' cannot be used here"),
        ("train --env CartPole-v1 --device meta", "device 'meta' cannot be used here, as cpu can"),
        ("train --env CartPole-v1 --threads 100000", "threads must be between 1 and"),
        ("train --env CartPole-v1 --mlp-layers 100000000", "mlp_layers must be between 1 and 100"),
        ("train --env CartPole-v1 --agent bdqn-deep --backup-draws 1e9", "backup_draws must be between 1 and 1000"),
        ("agents bdqm", "did you mean bdqn"),
        ("train --env Pendulum-v1", "action"),
        ("train --agent bdqn", "--env is required"),
        ("train --agent ddqn --env CartPole-v1 --prior-var 1", "no flag --prior-var"),
        ("evaluate nowhere", "nowhere does not exist"),
        ("presets show papr", "did you mean paper?"),
        ("presets show paper --family atary", "did you mean atari"),
        ("presets paper", "bdqn presets show NAME"),
        ("doctor --env CartPol-v1", "CartPole-v1"),
    ],
)
def test_a_mistake_is_answered_with_what_would_be_right(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    suggestion: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    short = ["--steps", "10"] if arguments.startswith("train") and "--steps" not in arguments else []
    assert suggestion in refusal(capsys, *arguments.split()[:1], *short, *arguments.split()[1:])
    assert not list(tmp_path.iterdir())  # nothing was begun


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("train --env CartPole-v1 --out", "--out"),
        ("sweep sweep.toml --out", "--out"),
        ("tune --search search.toml --out", "--out"),
        ("compare out --out", "--out"),
        ("report out --tables", "--tables"),
        ("linear --out", "--out"),
        ("evaluate run", "RUN"),
        ("compare", "DIR"),
        ("resume", "RUN"),
        ("inspect", "PATH"),
        ("watch", "RUN"),
        ("sweep", "FILE"),
    ],
)
def test_an_empty_path_is_not_the_current_directory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, name: str
) -> None:
    """As of a variable that a script has not set."""
    monkeypatch.chdir(tmp_path)
    assert main([*arguments.split(), ""]) == 2
    assert capsys.readouterr().err == f"bdqn: {name} is empty: it must be a path.\n"
    assert not list(tmp_path.iterdir())


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--help")
    assert "Bayesian DQN" in text
    assert all(f"\n  {command} " in text for command in COMMANDS)
    assert shown(capsys) == text
    assert shown(capsys, "--version").startswith("bdqn ")


@pytest.mark.parametrize("agent", AGENTS)
def test_help_for_an_agent_lists_its_settings_with_the_presets_values(
    capsys: pytest.CaptureFixture[str], agent: str
) -> None:
    text = shown(capsys, "train", "--agent", agent, "--env", "CartPole-v1", "--preset", "paper", "--help")
    for name in settings_of(AGENTS[agent].settings):
        assert f"--{name.replace('_', '-')} " in text
    rate = "0.0025" if agent in ("bdqn", "bdqn-deep", "bdqn-explore", "ucb") else "0.00025"
    assert f"learning rate of the optimizer [{rate}]" in text
    assert "--protocol" not in text
    assert "--protocol" in shown(capsys, "train", "--agent", agent, "--env", "ALE/Pong-v5", "--help")


def test_help_imports_no_torch_and_no_gymnasium() -> None:
    heavy = ("torch", "gymnasium", "numpy", "matplotlib", "rich")
    code = (
        "import sys\nfrom bdqn.cli import main\n"
        "for arguments in ('', 'train', 'agents', 'tune', 'tune --search FILE'):\n"
        "    try: main([*arguments.split(), '--help'])\n"
        "    except SystemExit: pass\n"
        f"print('loaded:', [name for name in {heavy!r} if name in sys.modules])\n"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.endswith("loaded: []\n")


def test_train_says_what_it_does_and_what_came_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    head = ["train", "--agent", "ddqn", "--env", "CartPole-v1", "--steps", "300", "--seed", "5", *SMALL]
    assert main(head) == 0
    text = capsys.readouterr().out
    (folder,) = (tmp_path / "runs" / "CartPole-v1" / "ddqn").glob("*_s5")
    relative = folder.relative_to(tmp_path)
    for part in (
        "Double DQN (ddqn) on CartPole-v1, seed 5",
        "classic",
        "presets/default-classic.toml",
        "truncated after 500 decisions",
        "Mean return of the last 100 episodes: ",
        "steps/s",
        f"bdqn evaluate {relative}",
    ):
        assert part in text
    assert main(["evaluate", str(relative), "--episodes", "2"]) == 0


def test_quiet_prints_the_result_only(capsys: pytest.CaptureFixture[str], train: Train) -> None:
    train("run")
    assert capsys.readouterr().out.splitlines()[0].startswith("Mean return of the last 100 episodes: ")


def test_settings_given_as_flags_reach_the_agent(train: Train) -> None:
    folder = train("run", "--gamma", "0.9", "--bias-feature", "false", "--noise", "fixed", "--train-freq=2")
    values = bdqn.load(folder).configuration.values
    assert (values["gamma"], values["bias_feature"], values["noise"], values["train_freq"]) == (
        0.9,
        False,
        "fixed",
        2,
    )


def test_a_run_is_never_written_over(capsys: pytest.CaptureFixture[str], train: Train) -> None:
    folder = train("run")
    before = (folder / "episodes.csv").read_bytes()
    again = ("train", "--env", "CartPole-v1", "--steps", "10", "--out", str(folder))
    refused = refusal(capsys, *again)
    assert "already holds a run" in refused
    assert "Every run needs its own --out, also for another seed" in refused  # as in a loop over seeds
    assert (folder / "episodes.csv").read_bytes() == before


def test_evaluate_reports_as_text_and_as_json(capsys: pytest.CaptureFixture[str], train: Train) -> None:
    folder = train("run")
    capsys.readouterr()
    text = shown(capsys, "evaluate", str(folder), "--episodes", "3", "--seed", "2")
    report = json.loads(shown(capsys, "evaluate", str(folder), "--episodes", "3", "--seed", "2", "--json"))
    assert len(report["returns"]) == 3
    assert report["mean_reward"] == pytest.approx(sum(report["returns"]) / 3)
    assert report["epistemic_std"] > 0
    assert f"{report['mean_reward']:.2f}" in text
    assert "epistemic" in text
    saved = folder / "checkpoints" / "gen-000000000600"
    assert json.loads(shown(capsys, "evaluate", str(saved), "--episodes", "3", "--seed", "2", "--json")) == report


def test_an_agent_plays_with_one_thread_however_it_was_trained(tmp_path: Path) -> None:
    """On a busy machine two that share an observation's arithmetic wait for each other: Pong took six times as long."""
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    bdqn.make("ddqn", "ALE/Pong-v5", features=8, buffer_size=50).save(tmp_path / "agent")
    torch.set_num_threads(2)
    load_to_play(tmp_path / "agent", None)
    assert torch.get_num_threads() == 1


def test_evaluate_of_an_agent_without_posterior_has_no_spread(capsys: pytest.CaptureFixture[str], train: Train) -> None:
    folder = train("run", "--agent", "ddqn")
    capsys.readouterr()
    assert "epistemic" not in shown(capsys, "evaluate", str(folder), "--episodes", "1")


def test_evaluate_keeps_the_scores_of_many_runs(
    capsys: pytest.CaptureFixture[str], train: Train, tmp_path: Path
) -> None:
    single, sweep = train("single", "--agent", "ddqn"), tmp_path / "sweep"
    trials = [train(f"sweep/trials/{seed}", "--agent", "ddqn", "--seed", str(seed)) for seed in (1, 2)]
    rows = [f"{seed},ddqn,ddqn,CartPole-v1,{seed}" for seed in (1, 2)]
    (sweep / "trials.csv").write_text("\n".join(["trial,group,agent,env,seed", *rows]) + "\n")
    capsys.readouterr()
    asked = ("--episodes", "2", "--epsilon", "0.001", "--keep")
    lines = shown(capsys, "evaluate", str(sweep), str(single), *asked, "--json").splitlines()
    found = read_runs([sweep, single]).records
    assert [json.loads(line)["run"] for line in lines] == list(map(str, [*trials, single]))
    for line, record in zip(lines, found, strict=True):
        assert json.loads(line)["mean_reward"] == record.evaluated_at(0.001)
    names = {path.name for path in single.iterdir()}
    shown(capsys, "evaluate", str(single), *asked)
    assert {path.name for path in single.iterdir()} == names, "the newest takes the place of the one before"
    assert f"{trials[0]}: ddqn on CartPole-v1 after 600 decisions" in shown(capsys, "evaluate", str(sweep), *asked)


def test_evaluate_names_the_runs_that_it_cannot_evaluate_and_does_the_others(
    capsys: pytest.CaptureFixture[str], train: Train, tmp_path: Path
) -> None:
    folder, checkpoint = train("run", "--agent", "ddqn"), "checkpoints/gen-000000000600"
    (tmp_path / "empty").mkdir()
    broken = [str(path) for path in (tmp_path / "empty", tmp_path / "nowhere", folder / checkpoint)]
    capsys.readouterr()
    assert main(["evaluate", *broken, str(folder), "--episodes", "1", "--keep"]) == 1
    printed = capsys.readouterr()
    assert f"{folder}: ddqn on CartPole-v1" in printed.out
    assert (folder / "evaluation-0.json").is_file()
    *each, total = printed.err.splitlines()
    assert [path in line for path, line in zip(broken, each, strict=True)] == [True] * 3
    assert total == f"bdqn: 3 of 4 runs could not be evaluated: {', '.join(broken)}."
    assert "not a run's directory" in refusal(capsys, "evaluate", broken[2], "--keep")
    assert not list((folder / checkpoint).glob("evaluation*"))
    assert "omit --best" in refusal(capsys, "evaluate", str(folder), "--keep", "--best")


def test_presets_are_listed_and_shown_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert "reference-code" in shown(capsys, "presets")
    text = shown(capsys, "presets", "show", "paper", "--agent", "bdqn", "--family", "atari")
    assert "paper.toml for bdqn (atari), 100,000,000 decisions" in text
    assert "posterior_update_interval" in text
    assert "protocol" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "(minatar)" in shown(capsys, "presets", "show", "default-minatar")


def test_agents_are_listed_with_their_settings(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "agents")
    assert all(f"{name}: {recipe.summary}" in text for name, recipe in AGENTS.items())
    assert "posterior_update_interval" in text
    assert "ls-dqn        least squares  =                  =         =          refit\n" in text
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_is_described_by_its_name(capsys: pytest.CaptureFixture[str], agent: str) -> None:
    text = shown(capsys, "agents", agent)
    for name, setting in settings_of(AGENTS[agent].settings).items():
        assert f"\n  {name} " in text
        assert setting.help in " ".join(text.split())
    assert f"bdqn train --env CartPole-v1 --agent {agent}\n" in text
    (page,) = re.findall(r"docs/algorithms/\S+", text)
    assert (Path(__file__).parents[2] / page).is_file()


def test_an_agents_description_has_its_choices_and_what_every_preset_sets(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "agents", "bdqn")
    assert text.startswith("bdqn: Bayesian DQN (Azizzadenesheli et al., 2018, Alg. 3). This is Double DQN")
    assert "ddqn  linear    epsilon greedy     never    double q   none\n" in text
    assert "bdqn  bayesian  greedy under draw  episode  =          refit\n" in text
    flowing = " ".join(text.split())
    assert "[1.0 in default-atari, default-minatar; 0.3 in default-classic; 0.001 in paper, reference-code]" in flowing
    assert "add a constant to the features of the regression [true in default; false in paper" in flowing
    assert "T~^S: decisions between draws that only act, in each environment's own count; 0: none [0]" in flowing


def test_processes_agree_byte_for_byte(train: Train, tmp_path: Path) -> None:
    here, there = train("here", "--agent", "ddqn"), tmp_path / "there"
    command = [sys.executable, "-m", "bdqn", "train", "--env", "CartPole-v1", "--steps", "600", "--quiet"]
    subprocess.run([*command, "--out", str(there), "--agent", "ddqn", *SMALL], check=True, capture_output=True)
    for name in ("config.toml", "episodes.csv", "metrics.csv", "checkpoints/gen-000000000600/agent.safetensors"):
        assert (here / name).read_bytes() == (there / name).read_bytes()


def test_ctrl_c_saves_the_agent_and_says_where(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "bdqn", "train", "--env", "CartPole-v1", "--steps", "10_000_000"]
    with subprocess.Popen(
        [*command, "--out", str(folder), *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            metrics = folder / "metrics.csv"
            while not metrics.exists() or metrics.read_text().count("\n") < 3:  # it is learning by then
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    assert errors == ""
    assert f" -m bdqn resume {folder}\n" in output
    assert json.loads((folder / "meta.json").read_text())["status"] == "interrupted"
    learner = bdqn.load(folder)
    assert learner.num_timesteps > 100
    assert f"Interrupted after {learner.num_timesteps:,} decisions" in output
