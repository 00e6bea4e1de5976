"""What 0.1 offers is still there: docs/promises.md."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.public_api import public_api

PROMISED = Path(__file__).parent / "data" / "public_api"
Api = dict[str, Any]


def broken(promised: Api, now: Api) -> list[str]:
    """What was promised and is not kept."""
    gone = [
        f"{kind} {name} has no {one}"
        for kind in ("commands", "settings")
        for name, things in promised[kind].items()
        for one in things
        if one not in now[kind].get(name, ())
    ]
    for name, parameters in promised["python"].items():
        if name not in now["python"]:
            gone.append(f"{name} is gone")
        else:
            gone += [f"{name} {what}" for what in changed(parameters, now["python"][name])]
    return gone


def changed(before: list[str], now: list[str]) -> list[str]:
    """How calls that worked could fail: a parameter is gone, moved or no longer optional, or a new one is required."""
    positional = before[: before.index("*")] if "*" in before else before
    problems = [f"has no parameter {one}" for one in before if one not in now and f"{one}=" not in now]
    problems += [f"has moved {a}" for a, b in zip(positional, now, strict=False) if a.rstrip("=") != b.rstrip("=")]
    known = {one.rstrip("=") for one in before}
    problems += [f"needs {one}" for one in now if one != "*" and not one.endswith("=") and one not in known]
    return problems


@pytest.mark.parametrize("version", sorted(PROMISED.glob("*.json")), ids=lambda path: path.stem)
def test_what_a_version_promised_is_kept(version: Path) -> None:
    assert broken(json.loads(version.read_text()), public_api()) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda api: api["python"].pop("bdqn.load"), "bdqn.load is gone"),
        (lambda api: api["python"]["bdqn.make"].remove("seed="), "bdqn.make has no parameter seed="),
        (lambda api: api["python"]["bdqn.make"].insert(0, "world"), "bdqn.make needs world"),
        (lambda api: api["python"]["bdqn.make"].reverse(), "bdqn.make has moved agent"),
        (lambda api: api["commands"]["train"].remove("--seed"), "commands train has no --seed"),
        (lambda api: api["settings"].pop("noisy"), "settings noisy has no sigma0"),
    ],
)
def test_a_broken_promise_is_noticed(change: Callable[[Api], Any], complaint: str) -> None:
    now = public_api()
    later = copy.deepcopy(now)
    change(later)
    assert complaint in broken(now, later)
    assert broken(now, now) == []


def test_more_is_no_broken_promise() -> None:
    now = public_api()
    later = copy.deepcopy(now)
    later["python"]["bdqn.make"].append("something_new=")
    later["python"]["bdqn.something_new"] = ["x"]
    later["commands"]["train"].append("--something-new")
    assert broken(now, later) == []
