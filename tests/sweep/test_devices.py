"""Where the trials of a sweep compute: devices that are not there, and GPUs that are used in turn."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import torch

from bdqn.cli import main
from bdqn.config.settings import SettingError
from bdqn.sweep.cluster import share_of_gpu
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.local import Local
from bdqn.sweep.plan import read_sweep
from support.sweeps import complete, sweep_file

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")


def one_trial(folder: Path) -> Path:
    return sweep_file(folder, steps=150, seeds=1, agents="ddqn")


@without_gpu
@pytest.mark.parametrize("words", [["--device", "cuda"], ["--gpus", "0,1"]])
def test_a_device_that_is_not_here_is_refused_before_anything_starts(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", str(one_trial(tmp_path)), "--out", str(tmp_path / "out"), *words]) == 2
    assert "device 'cuda' cannot be used here, as cpu can: " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@without_gpu
def test_a_dry_run_lists_the_trials_of_a_device_that_is_not_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["sweep", str(one_trial(tmp_path)), "--out", str(out), "--device", "cuda", "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "ddqn on CartPole-v1: not estimated: device 'cuda' cannot be used here, as cpu can: " in output
    assert "0 of 150 decisions" in output
    assert output.splitlines()[-1].endswith("in parallel: --speed N assumes a speed")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_dry_run_at_an_assumed_speed_needs_no_device(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--out", str(tmp_path / "out"), "--device", device, "--dry-run", "--speed", "0.5", "--workers", "1"]
    assert main(["sweep", str(one_trial(tmp_path)), *words]) == 0
    output = capsys.readouterr().out
    assert "ddqn on CartPole-v1: 5 min and 0.40 GB each" in output
    said = "1 trials, 1 in parallel: about 5 min, if each takes 0.5 decisions a second (assumed, not measured)"
    assert output.splitlines()[-1] == said


@pytest.mark.parametrize("words", [["--speed", "100"], ["--speed", "0", "--dry-run"], ["--speed", "nan", "--dry-run"]])
def test_a_speed_that_means_nothing_is_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", str(one_trial(tmp_path)), *words]) == 2
    assert "--speed must be a positive number, with --dry-run" in capsys.readouterr().err


def test_a_sweep_runs_on_the_device_that_it_is_given(tmp_path: Path) -> None:
    code, output, errors = complete(one_trial(tmp_path), tmp_path / "out", "--device", "cpu")
    assert (code, errors) == (0, "")
    assert "1 of 1 trials are finished." in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpus", "0,,1"], "--gpus must be different ids with commas in between, such as 0,1, not '0,,1'."),
        (["--gpus", "1,1"], "--gpus must be different ids"),
        (["--gpus", "0", "--device", "cpu"], "--gpus needs --device cuda."),
    ],
)
def test_gpus_that_are_none(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(one_trial(tmp_path)), *words]) == 2
    assert message in capsys.readouterr().err


def test_trials_use_the_gpus_in_turn(tmp_path: Path) -> None:
    """The one that is free comes next: a trial that has ended makes room on its GPU."""
    file = sweep_file(tmp_path, steps=1_000_000, seeds=4, agents="random")
    folder = SweepFolder(tmp_path / "out")
    folder.folder.mkdir()
    sweep = read_sweep(file)
    folder.prepare(sweep)
    engine = Local(["0", "3"])
    processes = []
    try:
        for trial in sweep.trials[:3]:
            processes.append(engine.start(trial, folder))
        processes[1].kill()
        processes.append(engine.start(sweep.trials[3], folder))
        seen = [child.environ().get("CUDA_VISIBLE_DEVICES") for child in psutil.Process().children()]
    finally:
        for process in processes:
            process.stop()
            process.kill()
    assert sorted(gpu for gpu in seen if gpu) == ["0", "0", "3"]


def test_trials_of_ray_share_gpus_where_there_are_fewer() -> None:
    assert [share_of_gpu(4, workers) for workers in (1, 4, 5, 8, 9)] == [1, 1, 1 / 2, 1 / 2, 1 / 3]
    with pytest.raises(SettingError, match="Ray has no GPU"):
        share_of_gpu(0, 2)
