"""A shared agent is the same agent elsewhere; nothing is overwritten, and nothing unsafe is copied."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import bdqn
from bdqn.cli import main
from bdqn.storage.saved_agents import CARD, FILES
from support.cli import Train
from support.files import contents


def test_a_run_is_pushed_pulled_evaluated_and_watched(
    train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train("run")
    calibrate = ["--calibrate", "--calibration-episodes", "19"]
    assert main(["evaluate", str(run), "--episodes", "3", "--keep", *calibrate]) == 0
    share = tmp_path / "share" / "cartpole"
    assert main(["push", str(run), str(share)]) == 0
    assert set(contents(share)) == FILES | {CARD}

    monkeypatch.chdir(tmp_path)
    assert main(["pull", str(share)]) == 0  # to its own name, here
    assert contents(tmp_path / "cartpole") == contents(share)
    capsys.readouterr()
    assert main(["evaluate", "cartpole", "--episodes", "3", "--json"]) == 0
    kept = json.loads((run / "evaluation-0.json").read_text())
    assert json.loads(capsys.readouterr().out) == kept  # the same agent, with its calibration
    assert main(["watch", "cartpole", "--out", "watch.html", "--max-steps", "5"]) == 0
    assert main(["inspect", "cartpole"]) == 0

    card = (share / CARD).read_text()
    low, high = min(kept["returns"]), max(kept["returns"])
    row = next(line for line in card.splitlines() if "epsilon 0 |" in line)
    estimate, interval, episodes = (cell.strip() for cell in row.strip("| ").split("|")[1:])
    assert (float(estimate), episodes) == (pytest.approx(kept["mean_reward"], rel=1e-3), "3")
    assert low <= float(interval.split(" to ")[0]) <= float(estimate) <= float(interval.split(" to ")[1]) <= high
    for fact in (
        'tags: ["reinforcement-learning", "bdqn", "CartPole-v1"]',
        "| agent | bdqn |",
        "| environment | CartPole-v1 |",
        "| preset | default-classic |",
        "| decisions | 600 |",
        "| `features` | 16 | 128 |",
        "- Calibrated, epsilon 0: 90 % intervals hold ",
        "`calibration.json` rests on 19 other episodes",
        'bdqn.load("my-agent")',
    ):
        assert fact in card
    assert "| `gamma` |" not in card  # as in the preset


def test_a_pulled_agent_believes_what_the_saved_one_does(saved: Path, tmp_path: Path) -> None:
    assert main(["push", str(saved), str(tmp_path / "there")]) == 0
    assert main(["pull", str(tmp_path / "there"), "--out", str(tmp_path / "here")]) == 0
    before, after = bdqn.load(saved), bdqn.load(tmp_path / "here")
    obs = np.linspace(-0.1, 0.1, 12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(after.q_posterior(obs).std, before.q_posterior(obs).std)
    assert (saved / "agent.safetensors").read_bytes() == (tmp_path / "here" / "agent.safetensors").read_bytes()


def test_nothing_is_overwritten_without_being_told(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    assert main(["push", str(saved), str(there)]) == 0
    (there / CARD).write_text("# My own words\n")
    before = contents(there)
    assert main(["push", str(saved), str(there)]) == 2
    assert f"{there} holds an agent: choose another directory, or pass --replace." in capsys.readouterr().err
    assert contents(there) == before

    assert main(["pull", str(there), "--out", str(tmp_path / "here")]) == 0
    assert (tmp_path / "here" / CARD).read_text() == "# My own words\n"  # a card goes along as it is
    assert main(["push", str(saved), str(there), "--replace"]) == 0
    assert (there / CARD).read_text().startswith("---\nlibrary_name: bdqn\n")

    (there / "notes.txt").write_text("mine")
    assert main(["push", str(saved), str(there), "--replace"]) == 2
    assert "exists and is not a saved agent: choose another directory." in capsys.readouterr().err
    assert (there / "notes.txt").read_text() == "mine"


def test_saving_over_a_shared_agent_says_what_to_do_and_keeps_its_card(saved: Path, tmp_path: Path) -> None:
    there, new = tmp_path / "there", tmp_path / "new"
    assert main(["push", str(saved), str(there)]) == 0
    before = contents(there)
    learner = bdqn.load(there).learn(50)
    with pytest.raises(FileExistsError, match=r"model card \(README.md\) would not describe this one") as refused:
        learner.save(there)
    assert contents(there) == before
    learner.save(new)
    command = f"bdqn push OTHER-PATH {there} --replace"
    assert command in str(refused.value)
    assert main(command.replace("OTHER-PATH", str(new)).split()[1:]) == 0
    assert contents(there)["agent.safetensors"] == contents(new)["agent.safetensors"] != before["agent.safetensors"]
    assert "| decisions | 150 |" in (there / CARD).read_text()


def test_only_an_agents_own_files_are_pulled_and_hostile_ones_are_refused(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    assert main(["push", str(saved), str(there)]) == 0
    (there / "agent.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert main(["pull", str(there), "--out", str(here)]) == 0
    assert set(contents(here)) <= FILES | {CARD}

    weights = there / "agent.safetensors"
    sound = weights.read_bytes()
    weights.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    refused = tmp_path / "refused"
    assert main(["pull", str(there), "--out", str(refused)]) == 2
    assert "agent.safetensors is damaged" in capsys.readouterr().err
    weights.unlink()
    secret = tmp_path / "secret"
    secret.write_bytes(sound)
    weights.symlink_to(secret)
    assert main(["pull", str(there), "--out", str(refused)]) == 2
    assert "is a link" in capsys.readouterr().err
    weights.unlink()
    weights.write_bytes(sound)
    (there / CARD).unlink()
    (there / CARD).symlink_to(secret)
    assert main(["pull", str(there), "--out", str(refused)]) == 2
    assert "is a link" in capsys.readouterr().err
    assert main(["pull", str(tmp_path), "--out", str(refused)]) == 2
    assert "holds no saved agent" in capsys.readouterr().err
    assert not refused.exists()
