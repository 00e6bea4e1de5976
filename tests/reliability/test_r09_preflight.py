"""What cannot fit into memory is refused at the start, and the largest size that fits is named: that one is accepted.

Limits are set as systems set them: the machine's free memory, control groups of both versions, and a real limit on a
process's address space.
"""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import bdqn
from bdqn.cli import main
from bdqn.config import memory
from bdqn.config.memory import free_memory
from bdqn.config.settings import SettingError
from support.processes import elsewhere

GB, MB = 10**9, 10**6
Free = Callable[[int], None]


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Free:
    """Sets the machine's free memory; control groups say nothing."""
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "none")
    monkeypatch.setattr(memory, "OWN_CGROUP", tmp_path / "nothing")

    def set_free(size: int) -> None:
        monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=size))

    set_free(1 << 50)
    return set_free


def refused(agent: str = "random", env: str = "CartPole-v1", **settings: Any) -> tuple[str, int]:
    """The setting that the refusal names, and the largest value that it says would fit."""
    with pytest.raises(SettingError) as caught:
        bdqn.make(agent, env, **settings)
    found = re.search(r"are free: set (\w+) to at most ([\d,]+)\.$", str(caught.value))
    assert found, caught.value
    return found[1], int(found[2].replace(",", ""))


def highest_memory() -> int:
    """The most that this process ever had at a time, in bytes."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["CartPole-v1", "ALE/Pong-v5"])
def test_the_named_buffer_size_is_the_largest_that_is_accepted(free: Free, env: str) -> None:
    free(200 * MB)
    name, fits = refused(env=env, buffer_size=10**9)
    assert name == "buffer_size"
    assert refused(env=env, buffer_size=fits + 1) == (name, fits)
    assert bdqn.make("random", env, buffer_size=fits).agent.replay.slots == fits
    per_frame = {"CartPole-v1": 4 * 4 + 15, "ALE/Pong-v5": 84 * 84 + 15}[env]
    assert 0.8 * 200 * MB < fits * per_frame <= 0.9 * 200 * MB


def test_the_named_number_of_features_is_the_largest_that_is_accepted(free: Free) -> None:
    free(20 * MB)
    name, fits = refused("bdqn", features=10**6, buffer_size=100)
    assert name == "features"
    assert refused("bdqn", features=fits + 1, buffer_size=100) == (name, fits)
    learner = bdqn.make("bdqn", "CartPole-v1", features=fits, buffer_size=100)
    assert learner.agent.online.head.posterior.factor.nbytes > 2 * MB  # one of the matrices that were counted
    bdqn.make("ddqn", "CartPole-v1", features=fits + 1, buffer_size=100)  # which keeps no posterior


@pytest.mark.parametrize(
    ("agent", "env", "settings"),
    [
        ("ddqn", "CartPole-v1", {"mlp_layers": 1}),
        ("ddqn", "CartPole-v1", {"mlp_layers": 3}),
        ("bootstrapped", "CartPole-v1", {"members": 20}),
        ("noisy", "MinAtar/Breakout-v1", {}),
        ("bbq", "MinAtar/Breakout-v1", {}),
    ],
)
def test_the_named_width_of_a_network_is_the_largest_that_is_accepted(
    free: Free, agent: str, env: str, settings: dict[str, Any]
) -> None:
    free(20 * MB)
    settings = {**settings, "buffer_size": 100}
    name, fits = refused(agent, env, features=10**9, **settings)
    assert name == "features"
    assert refused(agent, env, features=fits + 1, **settings) == (name, fits)
    head = bdqn.make(agent, env, features=fits, **settings).agent.online.head
    trained = 5 * sum(parameter.nbytes for parameter in head.parameters())
    assert 0.85 * 20 * MB < trained <= 0.9 * 20 * MB


def test_the_named_batch_size_is_the_largest_that_is_accepted(free: Free) -> None:
    free(20 * MB)
    name, fits = refused("ddqn", batch_size=10**12, buffer_size=100)
    assert name == "batch_size"
    assert refused("ddqn", batch_size=fits + 1, buffer_size=100) == (name, fits)
    bdqn.make("ddqn", "CartPole-v1", batch_size=fits, buffer_size=100)


def test_what_the_posterior_takes_is_not_free_for_the_memory(free: Free) -> None:
    free(20 * MB)
    _, alone = refused("ddqn", features=300, buffer_size=10**9)
    _, beside = refused("bdqn", features=300, buffer_size=10**9)
    posterior = 6 * 2 * 300**2 * 8
    assert (alone - beside) * 31 == pytest.approx(0.9 * posterior, rel=0.01)
    bdqn.make("bdqn", "CartPole-v1", features=300, buffer_size=beside)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells what was highest")
def test_nothing_large_is_allocated_before_the_refusal(free: Free) -> None:
    # If there were enough memory each of these would be taken at once, and for the features touched too.
    free(2 * GB)
    for settings in ({"buffer_size": 10**9}, {"features": 60_000}, {"batch_size": 10**9}):
        Path("/proc/self/clear_refs").write_text("5")  # what was highest is forgotten
        before, start = highest_memory(), time.perf_counter()
        refused("bdqn", **({"buffer_size": 100} | settings))
        assert highest_memory() - before < 20 * MB
        assert time.perf_counter() - start < 1.0


def test_the_command_line_refuses_in_one_line_and_begins_nothing(
    free: Free, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    free(1 * GB)
    run = tmp_path / "run"
    assert (
        main(["train", "--agent", "bdqn", "--env", "ALE/Pong-v5", "--out", str(run), "--buffer-size", "1000000"]) == 2
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(r"needs 7\.1 GB, but \d\.\d GB are free: set buffer_size to at most \d+,\d+\.$", line)
    assert not (run / "config.toml").exists()


# --- what counts as free --------------------------------------------------------------------------------------


def group(folder: Path, **files: object) -> None:
    """A control group's files; in their names an underscore stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("_", ".", 1)).write_text(f"{content}\n")


@pytest.fixture
def groups(free: Free, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Path]:
    """Says which control groups this process is in; gives the directory where they are."""

    def set_groups(lines: str) -> Path:
        (tmp_path / "own").write_text(lines)
        monkeypatch.setattr(memory, "OWN_CGROUP", tmp_path / "own")
        monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
        return tmp_path / "cgroup"

    return set_groups


def test_a_group_of_version_2_limits_what_is_free(groups: Callable[[str], Path]) -> None:
    root = groups("0::/user/job\n")
    group(root / "user" / "job", memory_max=3 * GB, memory_current=GB)
    assert free_memory() == 2 * GB
    group(root / "user" / "job", memory_stat=f"anon 1\ninactive_file {GB // 2}\nslab 1")
    assert free_memory() == 2 * GB + GB // 2  # the system drops cached files when memory is needed
    assert refused(env="ALE/Pong-v5", buffer_size=10**6)[0] == "buffer_size"


def test_a_group_above_limits_it_too(groups: Callable[[str], Path]) -> None:
    root = groups("0::/user/job\n")
    group(root / "user" / "job", memory_max="max", memory_current=GB)
    assert free_memory() == 1 << 50
    group(root / "user", memory_max=5 * GB, memory_current=4 * GB)
    assert free_memory() == GB
    group(root, memory_max=9 * GB, memory_current=int(8.5 * GB))
    assert free_memory() == GB // 2


def test_a_group_of_version_1_limits_what_is_free(groups: Callable[[str], Path]) -> None:
    root = groups("12:cpu,cpuacct:/a\n4:memory:/docker/abc\n1:name=systemd:/a\n") / "memory"
    v1 = {"memory_limit_in_bytes": 3 * GB, "memory_usage_in_bytes": GB}
    group(root / "docker" / "abc", **v1)
    assert free_memory() == 2 * GB


def test_in_a_container_the_limit_stands_at_the_root(groups: Callable[[str], Path]) -> None:
    # The path is the host's, but what is mounted begins at the container's own group.
    root = groups("4:memory:/docker/abc\n0::/\n")
    group(root / "memory", memory_limit_in_bytes=2 * GB, memory_usage_in_bytes=GB)
    assert free_memory() == GB
    group(root, memory_max=GB // 2, memory_current=0)
    assert free_memory() == GB // 2


def test_no_limit_of_version_1_is_a_very_large_number(groups: Callable[[str], Path]) -> None:
    root = groups("4:memory:/\n") / "memory"
    group(root, memory_limit_in_bytes=9223372036854771712, memory_usage_in_bytes=GB)
    assert free_memory() == 1 << 50


def test_a_group_that_is_over_its_limit_leaves_nothing(groups: Callable[[str], Path]) -> None:
    group(groups("0::/\n"), memory_max=GB, memory_current=2 * GB)
    assert free_memory() == 0
    with pytest.raises(SettingError, match=r"0\.0 GB are free: free some memory, make observations smaller"):
        bdqn.make("random", "CartPole-v1", buffer_size=8)


# --- a real limit ---------------------------------------------------------------------------------------------


def under_an_address_space_limit(room: int) -> dict[str, Any]:
    """In a process that may take ``room`` more bytes: what is refused, what is accepted, and what that took."""
    bdqn.make("bdqn", "ALE/Pong-v5", buffer_size=100, features=8)  # whatever is imported and made only once
    vms = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (vms + room, vms + room))
    before = highest_memory()
    name, fits = refused("bdqn", env="ALE/Pong-v5", buffer_size=1_000_000, features=8)
    refusing = highest_memory() - before
    fits = int(0.98 * fits)  # the refusal itself may have taken a little of the room
    learner = bdqn.make("bdqn", "ALE/Pong-v5", buffer_size=fits, features=8)
    for array in learner.agent.replay._arrays().values():
        array.fill(1)  # the room is really there
    return {"name": name, "fits": fits, "refusing": refusing, "filled": highest_memory() - before}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells what was highest")
def test_under_a_real_limit_the_named_size_can_be_filled() -> None:
    room = 600 * MB
    answer = elsewhere(under_an_address_space_limit, room)
    assert answer["name"] == "buffer_size"
    assert answer["refusing"] < 20 * MB
    assert 0.7 * room < answer["fits"] * (84 * 84 + 11) < 0.9 * room
    assert answer["filled"] > 0.9 * answer["fits"] * 84 * 84
