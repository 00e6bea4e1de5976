"""A NaN or an infinity stops a run, wherever it appears, and the error says where; no checkpoint ever holds one.

What holds, precisely:

- what an environment gives is refused in that very decision, before it is stored;
- what reaches the loss is refused in that update, before a weight changes; a bad gradient, by the next update;
- what reaches the regression or a draw is refused there, before anything is learned from it;
- a weight, an average of the optimizer or a part of the posterior that does not show in the loss, such as -inf behind
  a ReLU, is found within 100 updates;
- nothing of this is ever written: a save looks at everything first.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import bdqn
from bdqn.bayes.numerics import PosteriorError
from bdqn.bayes.posterior import Moments
from bdqn.cli import main
from bdqn.envs.interaction import Step
from bdqn.learner import Learner
from bdqn.networks.heads import BayesianHead
from bdqn.qlearning import finite_checks
from bdqn.qlearning.agent import WEIGHT_CHECK, QAgent
from bdqn.qlearning.finite_checks import NonFiniteError
from bdqn.runs.evaluation import evaluate
from bdqn.storage.checkpoints import Checkpoints
from bdqn.storage.state_files import read_arrays
from support.faulty import EPISODE, FAULT, Faulty
from support.fingerprints import digest
from support.processes import TESTS

BAD = (np.nan, np.inf, -np.inf)
SMALL = {"learning_starts": 20, "buffer_size": 600, "batch_size": 32, "features": 8, "train_freq": 4}
REFITS = {"posterior_update_interval": 40, "posterior_batch_size": 100}
ENVIRONMENT, TRAINING = "The environment gave it: look there", "Training has diverged: lower learning_rate"

# NumPy may warn on the way to the error.
may_warn = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
bad_numbers = pytest.mark.parametrize("bad", BAD, ids=str)
one_or_three = pytest.mark.parametrize("num_envs", [1, 3])


def learner_on(fault: str = "", agent: str = "bdqn", num_envs: int = 1, **settings: Any) -> Learner:
    """A learner whose last environment obeys ``fault`` (the very first that is made is only looked at)."""
    places = itertools.count()
    kept = SMALL | (REFITS if agent == "bdqn" else {}) | settings
    return bdqn.make(agent, lambda: Faulty(fault, guilty=next(places) == num_envs), num_envs=num_envs, seed=3, **kept)


def memory_is_finite(learner: Learner) -> bool:
    replay = learner.agent.replay
    return bool(np.isfinite(replay.frames).all() and np.isfinite(replay.rewards).all())


def weights(agent: QAgent) -> str:
    return digest((agent.online.state_dict(), agent.target.state_dict()))


def update_until_refused(agent: QAgent, what: str = "is not finite") -> int:
    """How many updates went well before one was refused, with ``what`` in the error."""
    before = agent.updates
    with pytest.raises(NonFiniteError, match=what):
        any(agent.update() for _ in range(2 * WEIGHT_CHECK))
    return agent.updates - before


def assert_not_saved(learner: Learner, folder: Path, what: str) -> None:
    """Neither way to save writes anything, and both say what is wrong."""
    for save in (lambda: Checkpoints(folder / "checkpoints").save(learner), lambda: learner.save(folder / "agent")):
        with pytest.raises(NonFiniteError, match=what):
            save()
    assert not [path for path in folder.rglob("*") if path.is_file()]


# --- what an environment gives ------------------------------------------------------------------------------


@one_or_three
@bad_numbers
@pytest.mark.parametrize(
    ("site", "name"), [("observation", "observation"), ("reset", "first observation"), ("reward", "reward")]
)
def test_what_an_environment_gives_is_refused_in_that_very_decision(
    site: str, name: str, bad: float, num_envs: int, tmp_path: Path
) -> None:
    decision = 12 * EPISODE  # an episode ends there, so that there is a reset too
    learner = learner_on(f"{site}:{bad}:{decision}", num_envs=num_envs)
    with pytest.raises(NonFiniteError) as caught:
        learner.learn(1_000)
    message = str(caught.value)
    assert f"The {name} of environment {num_envs - 1} ({bad} as float32" in message
    assert f"at decision {decision * num_envs:,}. {ENVIRONMENT}" in message
    assert caught.value.step == decision * num_envs
    assert learner.num_timesteps == (decision - 1) * num_envs
    assert learner.agent.updates > 0
    assert memory_is_finite(learner)
    # The environment has gone on without the agent: that is no state to resume from.
    with pytest.raises(RuntimeError, match="cut this learner's last decision short"):
        Checkpoints(tmp_path).save(learner)
    assert not list(tmp_path.glob("gen-*"))


@one_or_three
@bad_numbers
def test_the_very_first_observation_is_refused_before_there_is_a_learner(bad: float, num_envs: int) -> None:
    with pytest.raises(NonFiniteError, match=rf"first observation of environment {num_envs - 1} .* at decision 0\. "):
        learner_on(f"reset:{bad}:0", num_envs=num_envs)


@pytest.mark.parametrize("reward", [1e39, -1e300])
def test_a_reward_beyond_float32_is_an_infinity_to_the_replay_memory(reward: float) -> None:
    # Where rewards are clipped it would never reach the loss.
    learner = learner_on(f"reward:{reward}:30", agent="ddqn", reward_clip=1.0)
    with pytest.raises(NonFiniteError, match=r"The reward of environment 0 \(-?inf as float32\) .* at decision 30\. "):
        learner.learn(100)
    assert memory_is_finite(learner)


def test_large_numbers_are_not_refused() -> None:
    """Their squares and sums overflow, they do not."""
    obs, no = np.full((2, 3), 3e38, np.float32), np.zeros(2, np.bool_)
    finite_checks.check_step(Step(obs, np.full(2, -3e38), no, no, no, obs.copy(), ()), 1)
    finite_checks.check_records({"frames": obs}, env=0, start=0)
    agent = learner_on(agent="ddqn").agent
    with torch.no_grad():
        for parameter in agent.online.parameters():
            parameter.fill_(3e38)
    finite_checks.check_agent(agent)


@pytest.mark.parametrize(
    ("site", "name"), [("observation", "observation"), ("reset", "first observation"), ("reward", "reward")]
)
def test_an_evaluation_refuses_it_too(site: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = bdqn.make("ddqn", "Faulty-v0", **SMALL)
    monkeypatch.setenv(FAULT, f"{site}:nan:0")
    with pytest.raises(NonFiniteError, match=f"The {name} of environment 0 .*{ENVIRONMENT}"):
        evaluate(learner, 1)


# --- what is replayed, and the loss -------------------------------------------------------------------------


@one_or_three
@bad_numbers
@pytest.mark.parametrize("part", ["frames", "rewards"])
def test_a_replayed_number_is_refused_in_the_update_that_draws_it(
    part: str, bad: float, num_envs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = learner_on(agent="ddqn", num_envs=num_envs).learn(120)
    agent, sample = learner.agent, learner.agent.replay.sample
    getattr(agent.replay, part)[-1, 7] = bad
    drawn, before = [], ""

    def watched(size: int, rng: np.random.Generator) -> Any:
        nonlocal before
        before, batch = weights(agent), sample(size, rng)
        drawn.append(not all(np.isfinite(values).all() for values in (batch.obs, batch.next_obs, batch.reward)))
        return batch

    monkeypatch.setattr(agent.replay, "sample", watched)
    names = "rewards" if part == "rewards" else "(next )?observations"
    update_until_refused(agent, rf"Among the replayed {names} a number .* at decision 120\. ")
    assert drawn == [False] * (len(drawn) - 1) + [True]
    assert weights(agent) == before


@bad_numbers
@pytest.mark.parametrize("part", ["frames", "rewards"])
def test_a_replay_memory_gone_bad_is_not_written(part: str, bad: float, tmp_path: Path) -> None:
    """Clipping would hide an infinite reward from the loss for ever."""
    learner = learner_on(num_envs=3, reward_clip=1.0).learn(120)
    getattr(learner.agent.replay, part)[1, 30] = bad
    with pytest.raises(NonFiniteError, match=rf"Frame 30 of environment 1 in the replay buffer \({part}\)"):
        Checkpoints(tmp_path).save(learner)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


class Spoiled(nn.Module):
    """A user's network that gives ``bad`` once it is told to."""

    def __init__(self, bad: float) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 6)
        nn.init.orthogonal_(self.layer.weight, generator=torch.Generator().manual_seed(0))
        self.bad, self.spoil = bad, False

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return torch.where(torch.arange(6) == 2, self.bad, y) if self.spoil else y


def spoil(learner: Learner) -> None:
    for network in (learner.agent.online, learner.agent.target):
        for module in network.modules():
            if isinstance(module, Spoiled):
                module.spoil = True


@one_or_three
@bad_numbers
@pytest.mark.parametrize("agent", ["ddqn", "bdqn"])
def test_a_networks_own_nan_is_refused_in_the_first_update_that_meets_it(
    agent: str, bad: float, num_envs: int, tmp_path: Path
) -> None:
    learner = learner_on(agent=agent, num_envs=num_envs, network=Spoiled(bad)).learn(60)
    before, updates = weights(learner.agent), learner.agent.updates
    spoil(learner)
    with pytest.raises(NonFiniteError, match=rf"The loss \((nan|inf)\) is not finite at decision \d+\. {TRAINING}"):
        learner.learn(8)  # updates come every 4 decisions
    assert learner.agent.updates == updates
    assert weights(learner.agent) == before


# --- gradients and weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "optimizer", "num_envs"),
    [("ddqn", "adam", 1), ("bdqn", "adam", 3), ("ddqn", "rmsprop", 3), ("bdqn", "rmsprop", 1)],
)
def test_a_bad_gradient_is_refused_by_the_next_update_and_before_a_save(
    agent: str, optimizer: str, num_envs: int, tmp_path: Path
) -> None:
    """One number of one gradient at a time; the weights are spoiled by then, but nothing has been made of them."""
    learner = learner_on(agent=agent, num_envs=num_envs, optimizer=optimizer).learn(120)
    own = learner.agent
    good = copy.deepcopy(own.state())

    def last_one_is(bad: float) -> Callable[[Tensor], Tensor]:
        return lambda gradient: torch.cat([gradient.flatten()[:-1], torch.tensor([bad])]).view_as(gradient)

    for (name, parameter), bad in itertools.product(own.online.named_parameters(), BAD):
        hook = parameter.register_hook(last_one_is(bad))
        own.update()
        hook.remove()
        whose = rf"The online network's {re.escape(name)} is not finite at decision 120\. {TRAINING}"
        assert_not_saved(learner, tmp_path, whose)
        assert update_until_refused(own, whose) == 0
        own.load_state(good)
    finite_checks.check_agent(own)


def test_a_gradient_whose_square_overflows_is_found_in_the_optimizer(tmp_path: Path) -> None:
    """Adam would never move that weight again, and the loss would not tell."""
    learner = learner_on(agent="ddqn").learn(120)
    agent = learner.agent
    hook = agent.online.head.last.weight.register_hook(lambda gradient: torch.full_like(gradient, 1e30))
    agent.update()
    hook.remove()
    whose = r"The optimizer's exp_avg_sq of head\.last\.weight is not finite"
    assert_not_saved(learner, tmp_path, whose)
    assert 0 < update_until_refused(agent, whose) <= WEIGHT_CHECK


def injections(agent: QAgent) -> Iterator[tuple[str, Callable[[float], None]]]:
    """Every place where a number can be replaced: the first and the last of each tensor of both networks."""

    def setter(tensor: Tensor, place: int) -> Callable[[float], None]:
        def put(bad: float) -> None:
            with torch.no_grad():
                tensor.view(-1)[place] = bad

        return put

    for which, network in (("online", agent.online), ("target", agent.target)):
        for name, tensor in network.state_dict().items():
            for place in (0, -1):
                yield f"The {which} network's {name}", setter(tensor, place)


@pytest.mark.parametrize(("agent", "num_envs"), [("dqn", 1), ("ddqn", 3), ("bdqn", 1)])
def test_a_bad_weight_is_found_at_once_or_within_a_hundred_updates_and_before_a_save(
    agent: str, num_envs: int, tmp_path: Path
) -> None:
    learner = learner_on(agent=agent, num_envs=num_envs, mlp_layers=1).learn(360)
    own = learner.agent
    good = copy.deepcopy(own.state())
    later: Counter[str] = Counter()
    sites = list(injections(own))
    for (what, put), bad in itertools.product(sites, BAD):
        put(bad)
        assert_not_saved(learner, tmp_path, rf"^{re.escape(what)} is not finite at decision 360\. {TRAINING}")
        wait = update_until_refused(own)
        assert wait <= WEIGHT_CHECK
        if wait:  # nothing but the regular look finds what the loss does not show
            assert own.updates % WEIGHT_CHECK == 0
            later[f"{what} {bad}"] += 1
        own.load_state(good)
    print(f"{agent}, {num_envs} environment(s): of {len(sites) * len(BAD)} later than at once: {dict(later)}")
    # A NaN or inf that the agent acts on shows at once; the target's head may be asked for other actions only.
    assert all("-inf" in name or name.startswith("The target network's head") for name in later)


def test_minus_infinity_behind_a_relu_is_found_within_a_hundred_updates() -> None:
    learner = learner_on(agent="ddqn").learn(120)
    agent = learner.agent
    with torch.no_grad():
        agent.online.head.dense[0].bias[0] = -torch.inf
    assert 0 < update_until_refused(agent, r"The online network's head\.dense\.0\.bias") <= WEIGHT_CHECK


# --- the belief ---------------------------------------------------------------------------------------------


@may_warn
@one_or_three
@bad_numbers
def test_features_that_reach_the_regression_are_refused_there(bad: float, num_envs: int) -> None:
    learner = learner_on(num_envs=num_envs, network=Spoiled(bad), train_freq=10_000).learn(60)  # no update comes first
    belief = digest(learner.agent.online.head.posterior)
    spoil(learner)
    with pytest.raises(PosteriorError, match=r"At decision \d+: .* action 0 .*\(moment: gram; .*Lower the learning"):
        learner.learn(REFITS["posterior_update_interval"])
    assert digest(learner.agent.online.head.posterior) == belief


@one_or_three
@bad_numbers
@pytest.mark.parametrize("moment", ["gram", "cross", "squares"])
def test_bad_sums_are_refused_by_action_and_moment(
    moment: str, bad: float, num_envs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = learner_on(num_envs=num_envs).learn(60)
    belief = digest(learner.agent.online.head.posterior)
    add = Moments.add_by_action

    def spoiled(moments: Moments, *data: Any) -> None:
        add(moments, *data)
        getattr(moments, moment)[1:2].reshape(-1)[-1] = bad

    monkeypatch.setattr(Moments, "add_by_action", spoiled)
    with pytest.raises(PosteriorError, match=rf"At decision \d+: .* action 1 .*\(moment: {moment}; "):
        learner.learn(REFITS["posterior_update_interval"])
    assert digest(learner.agent.online.head.posterior) == belief


@may_warn
@one_or_three
@bad_numbers
@pytest.mark.parametrize("part", ["mean", "factor", "noise_var"])
def test_a_bad_posterior_is_refused_at_the_next_draw_or_within_a_hundred_updates(
    part: str, bad: float, num_envs: int, tmp_path: Path
) -> None:
    learner = learner_on(num_envs=num_envs, posterior_update_interval=100_000).learn(60)  # no refit replaces it
    getattr(learner.agent.online.head.posterior, part).reshape(-1)[-1] = bad
    whose = f"The online network's posterior {part} is not finite at decision 60"
    assert_not_saved(learner, tmp_path, whose)
    updates = learner.agent.updates
    with pytest.raises(NonFiniteError, match=rf"(A draw from the posterior|network's posterior {part}) .*{TRAINING}"):
        learner.learn(10_000)
    found_by_a_draw = learner.num_timesteps - 60 <= EPISODE * num_envs
    # An infinite precision is a draw without spread: that shows in nothing but the factor itself.
    assert found_by_a_draw or (part == "factor" and np.isinf(bad))
    assert learner.agent.updates - updates <= WEIGHT_CHECK


@one_or_three
@bad_numbers
def test_a_bad_draw_is_refused_in_that_very_decision(
    bad: float, num_envs: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    learner = learner_on(num_envs=num_envs).learn(60)
    draw = BayesianHead.draw

    def spoiled(head: BayesianHead, rng: np.random.Generator, count: int) -> Tensor:
        weights = draw(head, rng, count)
        weights[-1, 0, 0] = bad
        return weights

    monkeypatch.setattr(BayesianHead, "draw", spoiled)
    with pytest.raises(NonFiniteError, match=rf"A draw from the posterior is not finite at decision \d+\. {TRAINING}"):
        learner.learn(EPISODE * num_envs)


@bad_numbers
@pytest.mark.parametrize("which", ["training", "acting"])
def test_a_draw_gone_bad_is_not_written(which: str, bad: float, tmp_path: Path) -> None:
    learner = learner_on(num_envs=3).learn(60)
    getattr(learner.agent.draws, which).view(-1)[0] = bad
    assert_not_saved(learner, tmp_path, "A draw from the posterior is not finite at decision 60")


# --- on the command line ------------------------------------------------------------------------------------

FLAGS = ["--save-freq=100", "--log-freq=50", "--quiet"]
FLAGS += [f"--{name.replace('_', '-')}={value}" for name, value in (SMALL | REFITS).items()]


def saved_numbers_are_finite(folder: Path) -> bool:
    """Whether every float in every safetensors file of a run is; the shape of a fixed noise is infinite by nature."""
    files = list((folder / "checkpoints").rglob("*.safetensors"))
    arrays = [item for file in files for item in read_arrays(file.read_bytes()).items()]
    assert arrays
    return all(np.isfinite(array).all() for name, array in arrays if name != "posterior/noise_shape")


def only_line(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    """The command line sets torch's threads for the whole process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("num_envs", "fault", "what"),
    [
        (1, "reward:nan:250", "Stopped after 249 decisions: The reward of environment 0 (nan as float32)"),
        (3, "observation:inf:90", "Stopped after 267 decisions: The observation of environment 0 (inf as float32"),
    ],
)
def test_a_run_fails_with_one_line_keeps_its_checkpoint_and_goes_on_from_there(
    num_envs: int,
    fault: str,
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    command = ["train", "--env", "Faulty-v0", "--steps", "399", "--num-envs", str(num_envs), *FLAGS, "--out"]
    assert main([*command, str(whole)]) == 0

    monkeypatch.setenv(FAULT, fault)
    capsys.readouterr()
    assert main([*command, str(folder)]) == 1
    line = only_line(capsys)
    latest = folder / "checkpoints" / f"gen-{200 if num_envs == 1 else 201:012d}"  # 3 decisions at a time
    assert line.startswith(f"bdqn: {what}")
    assert ENVIRONMENT in line
    assert line.endswith(f"The latest checkpoint is {latest}; bdqn resume {folder} continues from there.")
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["status"], meta["ended"] is None) == ("failed", False)
    assert sorted(path.name for path in latest.parent.glob("gen-*"))[-1] == latest.name
    assert saved_numbers_are_finite(folder)
    assert main(["inspect", str(folder)]) == 0

    assert main(["resume", str(folder), "--quiet"]) == 1  # the fault is still there
    monkeypatch.delenv(FAULT)
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert json.loads((folder / "meta.json").read_text())["status"] == "finished"
    for name in ("episodes.csv", "metrics.csv", "checkpoints/gen-000000000399/agent.safetensors"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()


def test_a_process_that_meets_a_nan_ends_with_code_1_and_one_line(tmp_path: Path) -> None:
    env = "support.faulty:Faulty-v0"  # which TESTS holds
    flags = [flag for flag in FLAGS if "save-freq" not in flag]
    done = subprocess.run(
        [sys.executable, "-m", "bdqn", "train", "--env", env, "--steps", "400", *flags, "--out", str(tmp_path / "run")],
        cwd=TESTS,
        env=os.environ | {FAULT: "reward:nan:100"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("bdqn: Stopped after 99 decisions: The reward of environment 0 (nan as float32)")
    assert "No checkpoint was written yet; " in line
    assert line.endswith(f"bdqn resume {tmp_path / 'run'} --env {env} starts from the beginning.")
    assert json.loads((tmp_path / "run" / "meta.json").read_text())["status"] == "failed"


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ("--agent=ddqn --learning-rate=1e30", rf"The loss \(\w+\) is not finite at decision \d+\. {TRAINING}"),
        ("--learning-rate=1e30", rf"The loss \(\w+\) is not finite at decision \d+\. {TRAINING}"),
        ("--prior-var=1e16 --features=64", r"At decision \d+: The posterior precision of action \d .*Raise the ridge"),
    ],
)
def test_training_that_diverges_of_itself_fails_with_one_line_and_sound_checkpoints(
    flags: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "train",
        "--agent=bdqn",
        "--env",
        "CartPole-v1",
        "--steps=2000",
        "--learning-starts=110",
        "--save-freq=50",
        "--quiet",
    ]
    assert main([*command, "--buffer-size=2000", *flags.split(), "--out", str(tmp_path / "run")]) == 1
    assert re.search(rf"^bdqn: Stopped after \d+ decisions: {what}.* The latest checkpoint is \S+;", only_line(capsys))
    assert json.loads((tmp_path / "run" / "meta.json").read_text())["status"] == "failed"
    assert saved_numbers_are_finite(tmp_path / "run")
    assert main(["inspect", str(tmp_path / "run")]) == 0


def test_an_environment_that_begins_with_a_nan_is_refused_before_there_is_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FAULT, "reset:nan:0")
    assert main(["train", "--env", "Faulty-v0", *FLAGS, "--out", str(tmp_path / "run")]) == 2
    assert only_line(capsys).startswith("bdqn: The first observation of environment 0 (nan as float32 at [1])")
    assert not (tmp_path / "run").exists()


def test_an_evaluation_that_meets_a_nan_ends_with_code_1_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    command = ["train", "--env", "Faulty-v0", "--steps=100", *FLAGS, "--out"]
    assert main([*command, str(folder)]) == 0
    monkeypatch.setenv(FAULT, "reward:nan:1")
    capsys.readouterr()
    assert main(["evaluate", str(folder)]) == 1
    assert only_line(capsys).startswith("bdqn: The reward of environment 0 (nan as float32) is not finite")


# --- what it costs ------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("env", "settings", "decisions", "rounds"),
    [
        ("CartPole-v1", {"learning_starts": 1_000, "buffer_size": 20_000}, 2_000, 10),
        ("ALE/Pong-v5", {"learning_starts": 200, "buffer_size": 1_000, "posterior_update_interval": 200}, 200, 5),
    ],
)
@pytest.mark.parametrize("agent", ["ddqn", "bdqn"])
def test_the_checks_cost_less_than_a_hundredth_of_training(
    agent: str, env: str, settings: dict[str, int], decisions: int, rounds: int
) -> None:
    """Training and its checks, alone, timed in turns on one thread; the smallest time of each is compared."""
    kept = {name: value for name, value in settings.items() if agent == "bdqn" or "posterior" not in name}
    learner = bdqn.make(agent, env, **kept).learn(settings["learning_starts"] + 100)
    own = learner.agent
    (step,) = learner.steps(1)
    batch = own.replay.sample(own.training.batch_size, np.random.default_rng(0))
    training, checks = [], []
    for _ in range(rounds):
        updates, start = own.updates, perf_counter()
        learner.learn(decisions)
        training.append((perf_counter() - start) / decisions)
        updates = own.updates - updates
        start = perf_counter()
        for _ in range(decisions):
            finite_checks.check_step(step, own.steps)
        for _ in range(updates):
            finite_checks.check_loss(0.5, own.steps, batch, own.online, own.target)
            finite_checks.check_draw(own.draws.training, own.steps)
        for _ in range(-(-updates // WEIGHT_CHECK)):
            finite_checks.check_agent(own)
        checks.append((perf_counter() - start) / decisions)
    ratio = min(checks) / min(training)
    print(
        f"{agent} on {env}: {1e6 * min(checks):.2f} of {1e6 * min(training):.0f} microseconds per decision, "
        f"{100 * ratio:.2f} %"
    )
    assert ratio < 0.01
