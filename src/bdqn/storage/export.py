"""Files with which other programs evaluate a trained agent: ONNX, and PyTorch's own exported programs."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from bdqn.config.extras import missing
from bdqn.config.settings import SettingError
from bdqn.networks.exportable import ExportableBelief, ExportableQ
from bdqn.networks.heads.bayesian import BayesianHead
from bdqn.storage import atomic

if TYPE_CHECKING:
    from bdqn.learner import Learner

TOLERANCE = 1e-4  # of the largest value, by which what is exported may differ


class ExportError(RuntimeError):
    """The exported program does not compute what the agent does; nothing was written."""


def exportable(learner: Learner) -> ExportableQ:
    """What `q_posterior` computes, as a module, or `q_values` of an agent without a posterior. It is a copy."""
    agent = learner.agent
    if agent.spec.leaves:
        raise SettingError("Structured observations (Dict, Tuple) cannot be exported: they are read as bytes here.")
    network, head = agent.viewed, agent.online.head
    # What the head believes does not depend on the observation at which it is asked.
    belief = head.belief_at(agent.features(learner.envs.obs))
    if belief is None:
        module = ExportableQ(network, head, learner.reward_unit)
    else:
        assert isinstance(head, BayesianHead)
        module = ExportableBelief(network, head, belief.posterior, learner.reward_unit)
    module = module.cpu().eval().requires_grad_(False)
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)  # files hold tensors whole
    return module


def export(learner: Learner, *, onnx: str | Path | None = None, torch_program: str | Path | None = None) -> float:
    """Write an agent's Q to an ONNX file, to a program for ``torch.export.load``, or to both.

    Input is a batch of observations as the environment gives them, of any size. Outputs are ``q_mean`` and ``q_std``,
    or ``q`` for an agent without a posterior. Replaces files that have these names. Returns the largest difference from
    the agent itself on observations that it was tried on, as a share of the largest value.
    """
    if onnx is None and torch_program is None:
        raise SettingError("Say what to write: onnx=FILE, torch_program=FILE, or both.")
    if onnx is not None and torch_program is not None and Path(onnx) == Path(torch_program):
        raise SettingError(f"onnx and torch_program name the same file, {onnx}: name two.")
    module = exportable(learner)
    obs = _observations(learner)
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(module, (torch.from_numpy(obs),), dynamic_shapes=({0: batch},))
    differences, contents = [], {}  # nothing is written before all of it has been tried
    if onnx is not None:
        contents[onnx], found = _onnx(program, module.outputs, obs)
        differences.append(_difference(learner, obs, found))
    if torch_program is not None:
        file = io.BytesIO()
        torch.export.save(program, file)
        contents[torch_program] = file.getvalue()
        found = [part.numpy() for part in program.module()(torch.from_numpy(obs))]
        differences.append(_difference(learner, obs, found))
    for path, content in contents.items():
        atomic.write_file(_place(path), content)
    return max(differences)


def _onnx(
    program: torch.export.ExportedProgram, outputs: tuple[str, ...], obs: NDArray[Any]
) -> tuple[bytes, list[NDArray[Any]]]:
    """The model, and what ONNX Runtime makes of it at these observations."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise SettingError(missing("--onnx", "export", error)) from error
    with _quiet_exporter():
        exported = torch.onnx.export(
            program, input_names=["observation"], output_names=list(outputs), dynamo=True, verbose=False
        )
    assert exported is not None
    content: bytes = exported.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return content, session.run(None, {"observation": obs})


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Without what torch's exporter says of itself, and of packages that are not needed."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _observations(learner: Learner) -> NDArray[Any]:
    """What it stands at, and observations of its replay buffer, or of its space if that is empty."""
    replay = learner.agent.replay
    env, slot = replay.index()
    if len(env):
        chosen = np.linspace(0, len(env) - 1, min(63, len(env))).astype(np.int64)
        seen = replay.observations(env[chosen], slot[chosen])
    else:
        space = learner.envs.observation_space
        space.seed(learner.seed)
        seen = np.stack([np.asarray(space.sample()) for _ in range(63)])
    batch = np.concatenate([learner.envs.obs, seen]).astype(learner.agent.spec.dtype)
    return batch.clip(-10, 10) if batch.dtype.kind == "f" else batch  # where a space has no bounds


def _difference(learner: Learner, obs: NDArray[Any], found: list[NDArray[Any]]) -> float:
    """From the agent itself, as a share of its largest value; too large a one is refused."""
    if len(found) == 1:
        expected = [learner.q_values(obs)]
    else:
        q = learner.q_posterior(obs)
        expected = [q.mean, q.std]
    shares = (
        np.abs(there - here).max() / max(1.0, np.abs(here).max()) for there, here in zip(found, expected, strict=True)
    )
    worst = float(max(shares))
    if not worst <= TOLERANCE:
        raise ExportError(f"The exported program differs from the agent by {worst:.2g}: nothing was written.")
    return worst


def _place(path: str | Path) -> Path:
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place
