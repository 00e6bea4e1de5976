"""bfloat16: faster features where the processor has it, close to float32's everywhere, and never a dead process."""

from __future__ import annotations

import os
import platform
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.config.settings import SettingError
from bdqn.learner import Learner
from bdqn.networks import precision
from bdqn.replay.batch import Batch
from support.processes import elsewhere

CPU = torch.device("cpu")


# --- how well it works: in processes of their own, since it may end one ---------------------------------------


def recorded(env: str, agent: str, **settings: Any) -> Learner:
    """A learner that has played at random, and trained a little."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "precision is bfloat16")
    return bdqn.make(agent, env, learning_starts=300, buffer_size=1_000, seed=1, **settings).learn(340)


def gradient(learner: Learner, batch: Batch) -> torch.Tensor:
    agent = learner.agent
    agent.optimizer.clear()
    agent.loss(batch).backward()
    return torch.cat([p.grad.flatten() for p in agent.online.parameters() if p.grad is not None])


def compare_on_pong(agent: str) -> None:
    """bfloat16 has eight bits, a rounding of 0.4 %: Q is within 2 % of its size, gradients are within 5 % of theirs."""
    half = recorded("ALE/Pong-v5", agent, precision="bfloat16")  # first: it prepares the process
    single = bdqn.make(agent, "ALE/Pong-v5", learning_starts=300, buffer_size=1_000)
    single.agent.load_state(half.agent.state())
    batch = half.agent.replay.sample(64, np.random.default_rng(0))
    expected, found = single.agent.view(batch.obs).mean, half.agent.view(batch.obs).mean
    assert expected.dtype == found.dtype == np.float32
    assert 0 < np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
    ours, theirs = gradient(half, batch), gradient(single, batch)
    assert ours.dtype == torch.float32
    assert 0 < (ours - theirs).norm() < 0.05 * theirs.norm()
    assert torch.cosine_similarity(ours, theirs, dim=0) > 0.999


@pytest.mark.parametrize("agent", ["ddqn", "bdqn"])
def test_values_and_gradients_on_a_recorded_pong_replay(agent: str) -> None:
    elsewhere(compare_on_pong, agent)


def train(env: str) -> None:
    learner = recorded(env, "bdqn", precision="bfloat16")
    agent = learner.agent
    assert {tensor.dtype for tensor in agent.online.state_dict().values()} == {torch.float32}
    assert agent.updates > 0
    assert np.isfinite(learner.q_posterior(learner.envs.obs).std).all()


@pytest.mark.parametrize("env", ["CartPole-v1", "MinAtar/Breakout-v1"])
def test_it_trains_and_its_weights_stay_in_float32(env: str) -> None:
    elsewhere(train, env)


def compare_copies_with_autocast(agent: str, settings: dict[str, Any]) -> None:
    """What passes without gradients use instead of the weights is what autocast would have made of them just then."""
    if settings.pop("own", False):
        settings["network"] = UsersNetwork()
    learner = recorded("MinAtar/Breakout-v1", agent, precision="bfloat16", target_update_interval=100, **settings)
    obs = torch.from_numpy(learner.agent.replay.sample(32, np.random.default_rng(0)).obs)
    for _ in range(3):
        learner.learn(60)  # updates, and copies to the target network
        for network in (learner.agent.online, learner.agent.target):
            with torch.no_grad():
                found = network.features(obs)
            assert torch.equal(found, network.features(obs).detach())  # with gradients autocast casts each weight
            assert {value.dtype for value in network.parameters()} == {torch.float32}
    first = learner.agent.online.state_dict()
    learner.agent.online.load_state_dict({name: value + 1 for name, value in first.items()})
    with torch.no_grad():
        assert not torch.equal(learner.agent.online.features(obs), found)


class UsersNetwork(torch.nn.Module):
    """It multiplies by a weight itself, and keeps a layer in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(400, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            return self.layer(x.flatten(1).float()) + self.layer.weight.sum()


@pytest.mark.parametrize(
    ("agent", "settings"),
    [
        *((agent, {}) for agent in ("ddqn", "bdqn", "noisy", "bootstrapped")),
        ("ddqn", {"batch_norm": True}),
        ("ddqn", {"own": True}),
    ],
    ids=["ddqn", "bdqn", "noisy", "bootstrapped", "batch-norm", "users-network"],
)
def test_copies_of_weights_follow_the_weights(agent: str, settings: dict[str, Any]) -> None:
    elsewhere(compare_copies_with_autocast, agent, settings)


def new_pages_per_update() -> float:
    learner = recorded("ALE/Pong-v5", "ddqn", precision="bfloat16")
    learner.learn(80)  # the memory that it needs is there now
    before, updates = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, learner.agent.updates
    learner.learn(80)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / (learner.agent.updates - updates)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries cannot be told to keep memory")
def test_an_update_uses_the_memory_of_the_one_before() -> None:
    """Copies of the dense layer alone are thousands of pages, and clearing those took a fifth of a decision."""
    assert elsewhere(new_pages_per_update) < 100


# --- processors that forbid it --------------------------------------------------------------------------------

SOUND = 'print(\'{"float32": 1.0, "bfloat16": 0.5}\')'
FORBIDDEN = "os.kill(os.getpid(), signal.SIGILL)"


def processor(monkeypatch: pytest.MonkeyPatch, trial: str) -> None:
    """A processor on which a trial goes like this."""
    program = f"import os, signal\nisa = os.environ.get('{precision.ISA}')\n{trial}"
    monkeypatch.setattr(precision, "TRIAL", (sys.executable, "-c", program))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is known of the processor yet, nor afterwards of the one that a test made up."""
    monkeypatch.delenv(precision.ISA, raising=False)
    precision.try_bfloat16.cache_clear()
    yield
    precision.try_bfloat16.cache_clear()
    os.environ.pop(precision.ISA, None)


def test_where_it_works_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    processor(monkeypatch, SOUND)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        precision.prepare_bfloat16(CPU)
    assert precision.ISA not in os.environ


def test_where_a_trial_dies_the_newest_instructions_that_work_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    processor(monkeypatch, f"{SOUND} if isa in ('AVX512_CORE_BF16', 'AVX2') else {FORBIDDEN}")
    precision.prepare_bfloat16(CPU)
    assert os.environ[precision.ISA] == "AVX512_CORE_BF16"


def test_where_it_is_slower_than_float32_a_warning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SOUND.replace("0.5", "1.52")
    processor(monkeypatch, f"{FORBIDDEN} if isa is None else {slow}")
    with pytest.warns(UserWarning, match="precision is bfloat16, but .* 1.5 times as long as in float32"):
        precision.prepare_bfloat16(CPU)


def test_where_every_trial_dies_it_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    processor(monkeypatch, FORBIDDEN)
    with pytest.raises(SettingError, match=r"bfloat16 does not work .* was ended by SIGILL\): use float32"):
        bdqn.make("bdqn", "CartPole-v1", precision="bfloat16")


def test_where_this_process_has_chosen_forbidden_instructions_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN reads its limit once: a process that has computed before cannot be held to older instructions."""
    processor(monkeypatch, f"{FORBIDDEN} if isa is None else {SOUND}")
    monkeypatch.setattr(precision, "_one_product", lambda: os.kill(os.getpid(), signal.SIGILL))
    with pytest.raises(SettingError, match=f"would end this process.*{precision.ISA}=AVX512_CORE_FP16"):
        bdqn.make("bdqn", "CartPole-v1", precision="bfloat16")
    assert precision.ISA not in os.environ


def test_runs_in_float32_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    processor(monkeypatch, FORBIDDEN)
    bdqn.make("bdqn", "CartPole-v1").learn(10)
    assert precision.ISA not in os.environ


def test_a_trial_that_hangs_is_a_trial_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    processor(monkeypatch, "import time; time.sleep(60)")
    monkeypatch.setattr(precision, "PATIENCE", 0.1)
    with pytest.raises(SettingError, match="took more than"):
        precision.try_bfloat16()
