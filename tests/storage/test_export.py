"""What is exported computes what the agent does, in ONNX Runtime and in a process without bdqn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.cli import main
from bdqn.config.settings import SettingError
from bdqn.storage.export import ExportError
from support.cli import Train
from support.small import small

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime, from the extra export")
pytest.importorskip("onnxscript", reason="needs onnxscript, from the extra export")


def long(*arguments: Any) -> Any:
    """A case for `make test-long`."""
    return pytest.param(*arguments, marks=pytest.mark.long)


def seen(learner: bdqn.Learner, rows: int) -> Any:
    """Observations that were not those of the export's own trial."""
    rng, found = np.random.default_rng(3), []
    obs = learner.envs.obs
    for _ in range(rows):
        found.append(obs[0])
        obs = learner.envs.step(rng.integers(learner.agent.num_actions, size=len(obs))).obs
    return np.array(found).astype(learner.agent.spec.dtype)


def run(path: Path, obs: Any) -> list[Any]:
    return onnxruntime.InferenceSession(str(path)).run(None, {"observation": obs})


@pytest.mark.parametrize(
    ("agent", "env", "settings"),
    [
        ("bdqn", "CartPole-v1", {}),
        long("bdqn", "MinAtar/Breakout-v1", {"reward_scaling": True}),
        ("bdqn", "FrozenLake-v1", {"bias_feature": False, "prior_scale": 1.0}),
        pytest.param(
            "bdqn", "CartPole-v1", {"last_layer": "gradient", "noise": "inverse-gamma"}, marks=pytest.mark.long
        ),
        long("bdqn-explore", "CartPole-v1", {}),
        ("bdqn-explore", "MinAtar/Breakout-v1", {}),
    ],
)
def test_onnx_gives_the_posteriors_mean_and_std(agent: str, env: str, settings: dict[str, Any], tmp_path: Path) -> None:
    learner = small(agent, env, **settings).learn(150)
    bdqn.export(learner, onnx=tmp_path / "q.onnx")
    obs = seen(learner, 40)
    q = learner.q_posterior(obs)
    mean, std = run(tmp_path / "q.onnx", obs)
    np.testing.assert_allclose(mean, q.mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(std, q.std, rtol=1e-4, atol=1e-6)
    assert np.ptp(std) > 0
    for batch in (1, 7):  # of any size
        np.testing.assert_allclose(run(tmp_path / "q.onnx", obs[:batch])[0], mean[:batch], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("agent", ["ddqn", *(long(name) for name in ("bootstrapped", "dropout"))])
def test_an_agent_without_a_posterior_gives_its_q_values(agent: str, tmp_path: Path) -> None:
    learner = small(agent, "CartPole-v1").learn(100)
    bdqn.export(learner, onnx=tmp_path / "q.onnx")
    obs = seen(learner, 20)
    (q,) = run(tmp_path / "q.onnx", obs)
    np.testing.assert_allclose(q, learner.q_values(obs), rtol=1e-4, atol=1e-5)


def test_a_program_of_torch_export_runs_without_bdqn(tmp_path: Path) -> None:
    learner = small("bdqn", "CartPole-v1").learn(100)
    bdqn.export(learner, torch_program=tmp_path / "q.pt2")
    obs = seen(learner, 5)
    np.save(tmp_path / "obs.npy", obs)
    program = (
        "import sys, numpy, torch; q = torch.export.load('q.pt2').module();"
        "mean, std = q(torch.from_numpy(numpy.load('obs.npy')));"
        "numpy.savez('q.npz', mean=mean.numpy(), std=std.numpy()); sys.exit('bdqn' in sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=tmp_path, check=True)
    q, loaded = learner.q_posterior(obs), np.load(tmp_path / "q.npz")
    np.testing.assert_allclose(loaded["mean"], q.mean, rtol=1e-4)
    np.testing.assert_allclose(loaded["std"], q.std, rtol=1e-4)


def test_exporting_leaves_the_agent_as_it_was(tmp_path: Path) -> None:
    learner = small("bdqn-explore", "CartPole-v1").learn(100)
    obs = seen(learner, 5)
    before = learner.q_posterior(obs)
    bdqn.export(learner, torch_program=tmp_path / "q.pt2")
    np.testing.assert_array_equal(learner.q_posterior(obs).std, before.std)
    learner.learn(100)
    assert not np.array_equal(learner.q_posterior(obs).mean, before.mean)


def test_a_program_that_computes_something_else_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bdqn.networks.exportable._spreads", lambda belief: 1.01 * belief.factor)
    with pytest.raises(ExportError, match=r"differs from the agent by .*: nothing was written"):
        bdqn.export(small("bdqn", "CartPole-v1").learn(100), torch_program=tmp_path / "q.pt2")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_refused_in_a_sentence(tmp_path: Path) -> None:
    import gymnasium as gym

    from support.structured import InADict

    with pytest.raises(SettingError, match=r"Structured observations \(Dict, Tuple\) cannot be exported"):
        bdqn.export(small("ddqn", lambda: InADict(gym.make("CartPole-v1"))), onnx=tmp_path / "q.onnx")
    with pytest.raises(SettingError, match="onnx and torch_program name the same file"):
        bdqn.export(small("ddqn", "CartPole-v1"), onnx=tmp_path / "q", torch_program=str(tmp_path / "q"))
    with pytest.raises(SettingError, match="Say what to write: onnx=FILE, torch_program=FILE"):
        bdqn.export(small("ddqn", lambda: gym.make("CartPole-v1")))


def test_the_command_exports_a_run(train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = train("run")
    capsys.readouterr()
    out = tmp_path / "new" / "q.onnx"
    assert main(["export", str(folder), "--onnx", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: observation -> q_mean, q_std; differs from the agent by ")
    learner = bdqn.load(folder)
    obs = torch.randn(9, 4).numpy()
    np.testing.assert_allclose(run(out, obs)[1], learner.q_posterior(obs).std, rtol=1e-4)
    assert main(["export", str(folder)]) == 2
    assert "Say what to write: --onnx FILE, --torch FILE" in capsys.readouterr().err


def test_the_command_replaces_no_file_without_being_told(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, new = tmp_path / "mine.pt2", tmp_path / "new.onnx"
    mine.write_bytes(b"mine")
    command = ["export", str(saved), "--onnx", str(new), "--torch", str(mine)]
    assert main(command) == 2
    assert f"--torch {mine} exists: choose another file, or pass --replace." in capsys.readouterr().err
    assert mine.read_bytes() == b"mine"
    assert not new.exists()
    assert main([*command, "--replace"]) == 0
    assert mine.read_bytes() != b"mine"
    for torch_file, problem in ((new, "name the same file"), (saved, "is a directory: name a file in it")):
        assert main([*command[:5], str(torch_file), "--replace"]) == 2
        assert problem in capsys.readouterr().err
