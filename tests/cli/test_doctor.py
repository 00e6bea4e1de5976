"""What doctor finds out."""

from __future__ import annotations

import pytest

import bdqn
from bdqn.cli import doctor, main
from bdqn.cli.doctor import Speed, measure
from bdqn.config.extras import EXTRAS, Extra
from bdqn.runs.progress import duration


def test_doctor_describes_the_installation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("python", "torch", "cores", "memory"))
    assert all(f"extra {name} " in text for name in ("atari", "minatar", "classic", "tensorboard", "tune", "ray"))


def test_a_missing_extra_comes_with_the_command_that_installs_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tune", "ray"):
        monkeypatch.setitem(EXTRAS, name, Extra("something", ("json", "no_such_module")))
    main(["doctor"])
    text = capsys.readouterr().out
    assert "extra ray          not installed (something)" in text
    assert "extra tensorboard  installed (bdqn train --tensorboard)" in text
    assert "pip install -c constraints.txt -e '.[tune,ray]'" in text.replace("classic,", "")


def test_doctor_estimates_a_preset(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "measure", lambda learner: Speed(acting=1e-4, training=1e-3, refit_sample=1e-4))
    assert main(["doctor", "--env", "CartPole-v1", "--preset", "paper"]) == 0
    text = capsys.readouterr().out
    # 1e8 decisions of 1e-3 s, and 1e8 refitted transitions of 1e-4 s (B = T^BT): 1.1e5 s.
    assert "100,000,000 decisions in about 30.6 h" in text
    assert "1,000,000 frames, 31 MB" in text
    assert "estimate" in text


@pytest.mark.parametrize("agent", ["bdqn", "ddqn"])
def test_measuring_times_every_part_and_leaves_the_agent_whole(agent: str) -> None:
    learner = bdqn.make(agent, "CartPole-v1", learning_starts=100, buffer_size=2000, features=8)
    choices = learner.agent.choices
    speed = measure(learner, seconds=0.2)
    assert 0 < speed.acting < speed.training
    assert (speed.refit_sample > 0) == (agent == "bdqn")
    assert learner.agent.choices == choices


@pytest.mark.parametrize(("seconds", "text"), [(12, "12 s"), (600, "10 min"), (9000, "2.5 h"), (864_000, "10.0 days")])
def test_durations_are_said_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text
