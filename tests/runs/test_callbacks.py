"""Callbacks: what they are told and when, and what training is without them."""

from __future__ import annotations

import atexit
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import bdqn
from bdqn.config.settings import SettingError
from bdqn.envs.interaction import Step
from bdqn.learner import Learner
from bdqn.runs.evaluation import Evaluation
from support.fingerprints import fingerprint
from support.small import small


class Diary(bdqn.Callback):
    """Notes what it is told, and answers False at one event."""

    def __init__(self, stop_at: tuple[str, int] | None = None) -> None:
        self.pages: list[tuple[str, int]] = []
        self.metrics: list[Mapping[str, float]] = []
        self._stop_at = stop_at

    def _note(self, event: str, learner: Learner) -> bool:
        self.pages.append((event, learner.num_timesteps))
        return self.pages[-1] != self._stop_at

    def on_start(self, learner: Learner, total_steps: int) -> None:
        self._note(f"start for {total_steps}", learner)

    def on_step(self, learner: Learner, step: Step) -> bool:
        return self._note("step", learner)

    def on_metrics(self, learner: Learner, metrics: Mapping[str, float]) -> bool:
        self.metrics.append(dict(metrics))
        return self._note("metrics", learner)

    def on_evaluation(self, learner: Learner, evaluation: Evaluation) -> bool:
        assert len(evaluation.returns) == 2
        return self._note("evaluation", learner)

    def on_end(self, learner: Learner) -> None:
        self._note("end", learner)

    def but_steps(self) -> list[tuple[str, int]]:
        return [page for page in self.pages if page[0] != "step"]


INTERVALS: dict[str, Any] = {"log_freq": 40, "eval_freq": 60, "eval_episodes": 2}


def test_a_callback_is_told_all_in_order_and_in_decisions_so_far() -> None:
    learner, diary = small("bdqn", "CartPole-v1", 2), Diary()
    learner.learn(30)
    learner.learn(100, diary, **INTERVALS)
    assert [at for event, at in diary.pages if event == "step"] == list(range(32, 132, 2))
    assert diary.but_steps() == [
        ("start for 130", 30),
        ("metrics", 40),
        ("evaluation", 60),
        ("metrics", 80),
        ("metrics", 120),
        ("evaluation", 120),
        ("end", 130),
    ]
    assert {"rollout/ep_rew_mean", "train/loss", "posterior/std_mean", "time/fps"} <= diary.metrics[-1].keys()


def test_callbacks_and_evaluations_do_not_change_what_is_learned() -> None:
    watched, alone = small("bdqn-explore", "CartPole-v1"), small("bdqn-explore", "CartPole-v1")
    watched.learn(200, [Diary(), bdqn.ProgressBar()], **INTERVALS)
    assert fingerprint(watched) == fingerprint(alone.learn(200))


@pytest.mark.parametrize("event", [("step", 51), ("metrics", 80), ("evaluation", 60)])
def test_each_kind_of_answer_can_stop_it_and_all_are_told(event: tuple[str, int]) -> None:
    learner, first, second = small("ddqn", "CartPole-v1"), Diary(event), Diary()
    learner.learn(200, [first, second], **INTERVALS)
    assert learner.num_timesteps == event[1]
    assert first.pages == second.pages
    assert second.pages[-1] == ("end", event[1])


def test_functions_and_callbacks_go_together() -> None:
    learner, diary, seen = small("ddqn", "CartPole-v1"), Diary(), []
    learner.learn(50, [lambda _learner, step: seen.append(step), diary])
    assert len(seen) == 50
    assert len(diary.pages) == 52


def test_one_that_fails_ends_the_others_too() -> None:
    class Fails(bdqn.Callback):
        def on_step(self, learner: Learner, step: Step) -> None:
            raise ZeroDivisionError

    diary = Diary()
    with pytest.raises(ZeroDivisionError):
        small("ddqn", "CartPole-v1").learn(50, [diary, Fails()])
    assert diary.pages[-1] == ("end", 1)


def test_what_is_no_callback_is_refused() -> None:
    learner = small("ddqn", "CartPole-v1")
    with pytest.raises(SettingError, match=r"not the class ProgressBar: ProgressBar\(\)"):
        learner.learn(10, bdqn.ProgressBar)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="not a int"):
        learner.learn(10, [3])  # type: ignore[list-item]
    with pytest.raises(SettingError, match="eval_freq evaluates for callbacks"):
        learner.learn(10, eval_freq=5)
    with pytest.raises(SettingError, match="log_freq must be at least 1"):
        learner.learn(10, Diary(), log_freq=0)
    assert learner.num_timesteps == 0


# --- early stopping -----------------------------------------------------------------------------------------------


def told(stopping: bdqn.EarlyStopping, values: list[float]) -> int:
    """After how many evaluations it stops; all of them, if it does not."""
    learner = small("ddqn", "CartPole-v1")
    stopping.on_start(learner, 100)
    for count, value in enumerate(values, start=1):
        if stopping.on_evaluation(learner, Evaluation((value,), (1,), None)) is False:
            return count
    return len(values)


def test_it_stops_when_patience_is_over() -> None:
    assert told(bdqn.EarlyStopping(patience=2), [1, 3, 2, 4, 4, 4, 9, 9]) == 6
    assert told(bdqn.EarlyStopping(patience=2, min_delta=1.5), [1, 3, 4, 4.4, 9]) == 4
    assert told(bdqn.EarlyStopping(patience=9, stop_at=4), [1, 3, 4, 5]) == 3
    assert told(bdqn.EarlyStopping(patience=9), [1, 3, 4, 5]) == 4


def test_it_follows_any_metric() -> None:
    learner = small("ddqn", "CartPole-v1")
    learner.learn(5_000, bdqn.EarlyStopping("rollout/ep_len_mean", stop_at=9), log_freq=100)
    assert 0 < learner.num_timesteps < 5_000


def test_a_metric_that_does_not_exist_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingError, match="did you mean eval/mean_reward"):
        small("ddqn", "CartPole-v1").learn(10, bdqn.EarlyStopping("eval/mean_rewrad"))


def test_one_that_waits_for_evaluations_that_never_come_says_so() -> None:
    with pytest.warns(UserWarning, match="never saw eval/mean_reward: set eval_freq"):
        small("ddqn", "CartPole-v1").learn(10, bdqn.EarlyStopping())


# --- progress -----------------------------------------------------------------------------------------------------


def test_progress_outside_of_terminals_is_lines(capsys: pytest.CaptureFixture[str]) -> None:
    small("ddqn", "CartPole-v1").learn(120, bdqn.ProgressBar(), **INTERVALS)
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"Evaluation after 60 steps: mean return [\d.]+, std [\d.]+ \(2 episodes\)", lines[0])
    assert re.fullmatch(r"120 of 120 steps, mean return [\d.]+, [\d,]+ steps/s, 0 s left", lines[-1])


def test_a_notebook_has_one_line_that_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    pytest.importorskip("IPython", reason="needs ipython, from the dev extra")
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # the shell puts its own there
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.config["IPKernelApp"] = Config()  # what a notebook's kernel leaves there
    try:
        with capture_output() as shown:
            small("ddqn", "CartPole-v1").learn(120, bdqn.ProgressBar(), **INTERVALS)
    finally:
        shell.atexit_operations()
        atexit.unregister(shell.atexit_operations)
        InteractiveShell.clear_instance()
    first, *updates = shown._outputs
    assert not first["update"]
    assert updates
    assert all(update["update"] for update in updates)
    assert {part["transient"]["display_id"] for part in shown._outputs} == {first["transient"]["display_id"]}
    assert updates[-1]["data"]["text/plain"].startswith("[####################] 120 of 120 steps, mean return ")
    assert "Evaluation after 60 steps" in shown.stdout
