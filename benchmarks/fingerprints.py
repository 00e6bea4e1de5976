"""One hash per agent, environment and option, to verify that a change does not affect training.

    python benchmarks/fingerprints.py > before.txt     # in the old checkout
    python benchmarks/fingerprints.py | diff before.txt -

A hash covers weights, optimizer, posterior, draws, generators, replay buffer, episodes and metrics after
1,500 decisions
(900 on Pong) with a fit every 200. Arithmetic differs between processors, so hashes are compared on one machine only.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

import bdqn
from bdqn.agents import AGENTS

STEPS = {"CartPole-v1": 1_500, "MinAtar/Breakout-v1": 1_500, "ALE/Pong-v5": 900}
COMMON = {"learning_starts": 300, "buffer_size": 5_000, "target_update_interval": 200}
FITTED = {"posterior_update_interval": 200, "posterior_batch_size": 600}
AGENT_SETTINGS: dict[str, dict[str, Any]] = {
    "bdqn": FITTED,
    "bdqn-deep": FITTED,
    "ucb": FITTED,
    "ls-dqn": FITTED,
}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("bdqn", {"redraw": "steps", "sample_interval": 200}),
    ("bdqn", {"redraw": "steps", "sample_interval": 200, "acting_sample_interval": 20, "num_envs": 3}),
    ("bdqn", {"num_envs": 3}),
    ("bdqn", {"acting": "ucb"}),
    ("bdqn", {"acting": "mean"}),
    ("bdqn", {"acting": "epsilon-greedy"}),
    ("bdqn", {"last_layer": "gradient"}),
    ("bdqn", {"last_layer": "gradient-prior"}),
    ("bdqn", {"loss_head": "draw", "evaluate_head": "second-draw", "regression_head": "draw"}),
    ("bdqn", {"posterior_data": "minibatches"}),
    ("bdqn", {"gram_decay": 0.5, "regression_target": "max"}),
    ("bdqn", {"prior_scale": 1.0}),
    ("bdqn", {"noise": "fixed", "bias_feature": False, "temperature": 0.5}),
    ("bdqn", {"noise": "fixed", "first_refit": "interval", "n_steps": 3}),
    ("bdqn-deep", {"backup_sweeps": 0}),
    ("bdqn-deep", {"prior_features": 0, "num_envs": 2}),
    ("bootstrapped", {"prior_scale": 1.0, "num_envs": 2}),
    ("dropout", {"num_envs": 2}),
    ("ddqn", {"precision": "float32", "loss": "squared", "timeout_is_terminal": True}),
]


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, bytes]]:
    """All values of nested dictionaries and lists as bytes, with their paths; what is absent (None) leaves no trace."""
    if tree is None:
        return
    if isinstance(tree, Mapping):
        for name in sorted(tree):
            yield from leaves(tree[name], f"{path}/{name}")
    elif isinstance(tree, torch.Tensor | np.ndarray):
        yield path, np.ascontiguousarray(tree.detach().cpu() if isinstance(tree, torch.Tensor) else tree).tobytes()
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        for place, value in enumerate(tree):
            yield from leaves(value, f"{path}/{place}")
    else:
        yield path, repr(tree).encode()


def fingerprint(agent: str, env: str, settings: Mapping[str, Any]) -> str:
    """Train, and hash the results."""
    known = {**COMMON, **AGENT_SETTINGS.get(agent, {}), **settings}
    learner = bdqn.make(agent, env, seed=3, threads=1, **known)
    digest = hashlib.sha256()

    def watch(learner: Any, step: Any) -> None:
        for part in (step.reward, step.terminal, step.truncated, step.obs):
            digest.update(np.ascontiguousarray(part).tobytes())

    learner.learn(STEPS[env], watch)
    digest.update(repr(sorted(learner.agent.metrics.items())).encode())
    for path, value in leaves(learner.agent.state()):
        digest.update(path.encode() + value)
    env_index, slot = learner.agent.replay.index()
    for path, value in leaves(asdict(learner.agent.replay.gather(env_index, slot))):
        digest.update(path.encode() + value)
    return digest.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--envs", nargs="*", default=list(STEPS), help="environments (default: all)")
    envs = parser.parse_args().envs
    cases = [(agent, env, {}) for env in envs for agent in AGENTS]
    cases += [(agent, "CartPole-v1", settings) for agent, settings in VARIANTS if "CartPole-v1" in envs]
    for agent, env, settings in cases:
        words = " ".join(f"{name}={value}" for name, value in settings.items())
        print(fingerprint(agent, env, settings), agent, env, words, flush=True)


if __name__ == "__main__":
    main()
