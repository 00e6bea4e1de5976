"""The Hugging Face hub, by its own client: a server on this machine stands in for it (`support.hub`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.storage.saved_agents import CARD, FILES
from support.files import contents
from support.hub import HubServer, hub_server
from support.small import small

pytest.importorskip("huggingface_hub", reason="needs huggingface_hub, from the extra hub")

COMMANDS = """
import sys
from bdqn.cli import main

for line in sys.stdin:
    print(main(line.split()), flush=True)
"""


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with hub_server() as hub:
        yield hub


def run(folder: Path, variables: Mapping[str, str], *commands: str) -> tuple[list[int], list[str]]:
    """Exit codes and messages of commands. In a process of their own: the client reads variables at its import."""
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input="\n".join(commands),
        cwd=folder,
        env={**os.environ, **variables, "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
        capture_output=True,
        text=True,
    )
    codes = [int(line) for line in done.stdout.splitlines() if line.isdigit()]
    assert len(codes) == len(commands), done.stderr
    return codes, done.stderr.splitlines()


def test_an_agent_is_pushed_to_the_hub_and_pulled_from_it(hub: HubServer, saved: Path, tmp_path: Path) -> None:
    small("dqn", "CartPole-v1").learn(100).save(tmp_path / "other")
    variables = hub.environment(str(tmp_path / "home"))
    codes, messages = run(
        tmp_path,
        variables,
        f"push {saved} hf://owner/cartpole",
        f"push {tmp_path / 'other'} hf://owner/cartpole",
        "pull hf://owner/cartpole",
        "pull hf://owner/cartpole",
        "pull hf://owner/unknown",
    )
    assert codes == [0, 2, 0, 2, 2]
    present, local, unknown = messages
    assert present.startswith("bdqn: hf://owner/cartpole has README.md, agent.json")
    assert present.endswith("choose another name, or pass --replace.")
    assert local == "bdqn: cartpole holds an agent: choose another directory, or pass --replace."
    assert unknown.startswith("bdqn: hf://owner/unknown cannot be pulled from: there is no such repository")

    first, shared = hub.repos["owner/cartpole"]  # the hub's own commit, and one for the whole agent
    assert shared == {**first, **contents(tmp_path / "cartpole")}
    assert list(hub.large.values()) == [shared["agent.safetensors"]]
    assert shared["agent.safetensors"] == (saved / "agent.safetensors").read_bytes()
    assert "bdqn pull hf://owner/cartpole" in shared[CARD].decode()


def test_an_agent_on_the_hub_is_replaced_as_a_whole_and_other_files_stay(
    hub: HubServer, saved: Path, tmp_path: Path
) -> None:
    calibrated = small("bdqn", "CartPole-v1").learn(100)
    calibrated.calibrate(episodes=19)
    calibrated.save(tmp_path / "calibrated")
    variables = hub.environment(str(tmp_path / "home"))
    (pushed,), _ = run(tmp_path, variables, f"push {tmp_path / 'calibrated'} hf://owner/agent")
    commits = hub.repos["owner/agent"]
    assert pushed == 0
    assert "calibration.json" in commits[-1]

    commits.append({**commits[-1], "notes.txt": b"mine", "agent.pkl": b"cos\nsystem\n(S'true'\ntR."})
    codes, _ = run(tmp_path, variables, f"push {saved} hf://owner/agent --replace", "pull hf://owner/agent")
    assert codes == [0, 0]
    assert len(commits) == 4
    assert commits[-1]["notes.txt"] == b"mine"
    assert "calibration.json" not in commits[-1]  # it was the other agent's
    assert set(contents(tmp_path / "agent")) == (FILES | {CARD}) - {"calibration.json"}


def test_without_a_token_that_may_write_nothing_is_pushed_and_the_message_says_so(
    hub: HubServer, saved: Path, tmp_path: Path
) -> None:
    variables = hub.environment(str(tmp_path / "home"), token="hf_reader")
    (code,), (message,) = run(tmp_path, variables, f"push {saved} hf://owner/cartpole")
    assert code == 2
    assert message.startswith("bdqn: hf://owner/cartpole cannot be pushed to: Client error '401 Unauthorized'")
    assert message.endswith("Log in with a token that may do this (hf auth login).")
    assert not hub.repos


def test_a_damaged_agent_on_the_hub_is_refused(hub: HubServer, saved: Path, tmp_path: Path) -> None:
    variables = hub.environment(str(tmp_path / "home"))
    assert run(tmp_path, variables, f"push {saved} hf://owner/agent")[0] == [0]
    commits = hub.repos["owner/agent"]
    commits.append({**commits[-1], "agent.json": commits[-1]["agent.json"].replace(b"1", b"2", 1)})
    codes, (message,) = run(tmp_path, variables, "pull hf://owner/agent")
    assert codes == [2]
    assert message.startswith("bdqn: hf://owner/agent/agent.json is damaged")
    assert not (tmp_path / "agent").exists()


def test_without_the_network_the_hub_is_its_cache(saved: Path, tmp_path: Path) -> None:
    assert main(["push", str(saved), str(tmp_path / "shared")]) == 0
    kept = tmp_path / "cache" / "models--owner--cartpole"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text("0" * 40)
    (kept / "blobs").mkdir()
    snapshot = kept / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    for name, data in contents(tmp_path / "shared").items():
        (kept / "blobs" / name).write_bytes(data)
        (snapshot / name).symlink_to(f"../../blobs/{name}")  # as the client makes them

    variables = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path)}
    codes, messages = run(
        tmp_path,
        variables,
        f"push {saved} hf://owner/cartpole",
        "pull hf://owner/cartpole",
        "pull hf://owner/unknown",
        "pull hf://cartpole",
    )
    assert codes == [2, 0, 2, 2]
    pushed, unknown, malformed = messages
    why = "HF_HUB_OFFLINE forbids the network. Unset it, or name a directory."
    assert pushed == f"bdqn: hf://owner/cartpole cannot be pushed to: {why}"
    assert unknown.startswith("bdqn: hf://owner/unknown cannot be pulled from: it is not in the hub's cache")
    assert malformed == "bdqn: hf://cartpole names no repository of the hub: write hf://owner/name."
    assert contents(tmp_path / "cartpole") == contents(tmp_path / "shared")
