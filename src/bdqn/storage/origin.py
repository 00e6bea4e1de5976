"""Where a checkpoint comes from: enough to rebuild its learner, and to report what has changed since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from bdqn.storage.provenance import arithmetic, versions

if TYPE_CHECKING:
    from bdqn.learner import Learner


def about(learner: Learner) -> dict[str, Any]:
    """Describe a learner: what is needed to rebuild it, and what exact continuation depends on."""
    configuration = learner.configuration
    by_id = isinstance(learner.env_source, str) and _is_json(learner.env_kwargs)
    return {
        "agent": configuration.agent,
        "preset": configuration.preset,
        "family": configuration.family,
        "settings": configuration.values,
        "env": learner.env_source if by_id else None,
        "env_kwargs": learner.env_kwargs if by_id else {},
        **learner.supervision.saved,
        "num_envs": learner.envs.num_envs,
        "seed": learner.seed,
        "own_network": learner.network is not None,
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "arithmetic": {**arithmetic(), "torch's instruction set": torch.backends.cpu.get_cpu_capability()},
    }


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """List what exact continuation depends on and has changed."""
    before, after = ({**side["versions"], "threads": side["threads"]} for side in (then, now))
    if isinstance(then.get("arithmetic"), dict):  # missing in files of earlier versions
        before, after = before | then["arithmetic"], after | now["arithmetic"]
    return tuple(
        f"{name} was {before.get(name)} and is {after[name]}" for name in after if before.get(name) != after[name]
    )


def _is_json(value: Any) -> bool:
    with suppress(TypeError, ValueError):
        return bool(json.dumps(value))
    return False
