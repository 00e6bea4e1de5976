"""The model card of an agent that is shared: what it is, how good it was, and how to load it. Made from files alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from bdqn.config.resolve import configure
from bdqn.report import stats
from bdqn.report.find import is_run
from bdqn.report.grid import grid
from bdqn.report.load import WINDOW, Array, read_run
from bdqn.report.runs import Evaluated, read_evaluation
from bdqn.storage import calibrations, checkpoint_files
from bdqn.storage.checkpoint_files import Manifest
from bdqn.storage.safe_files import printable

NOT_AN_ID = "not registered: pass it again"


def model_card(agent: Path, address: str) -> str:
    """Describe the agent in this directory, a saved agent or a checkpoint of a run, for those who find it elsewhere.

    ``address`` is what `bdqn pull` takes; empty in a directory, which readers know better than we do.
    """
    manifest = checkpoint_files.read(agent)
    home = calibrations.home_of(agent)
    kept = map(read_evaluation, sorted(home.glob("evaluation-*.json")))
    evaluated = [found for found in kept if found.step == manifest.step]
    parts = (
        _heading(manifest),
        _table("The agent", ("what", "which"), _facts(manifest)),
        _returns(home, manifest, evaluated),
        _calibration(agent, manifest, evaluated),
        _settings(manifest),
        _use(manifest, address),
    )
    return "\n\n".join(parts) + "\n"


def _heading(manifest: Manifest) -> str:
    about = manifest.about
    tags = ["reinforcement-learning", "bdqn", about["agent"], *([about["env"]] if about["env"] else [])]
    tags = list(dict.fromkeys(tags))  # an agent is called bdqn, too
    title = f"# {about['agent']} on {_environment(manifest)}"
    # JSON is YAML, and a name cannot end it.
    return f"---\nlibrary_name: bdqn\ntags: {json.dumps(tags)}\n---\n\n{printable(title)}"


def _environment(manifest: Manifest) -> str:
    return str(manifest.about["env"] or "an environment of its own")


def _facts(manifest: Manifest) -> Iterator[tuple[str, str]]:
    about = manifest.about
    yield "agent", about["agent"]
    yield "environment", about["env"] or NOT_AN_ID
    if about["env_kwargs"]:
        yield "arguments of the environment", json.dumps(about["env_kwargs"])
    yield "network", "its own: pass it again" if about["own_network"] else "bdqn's"
    yield "preset", about["preset"]
    yield "seed", str(about["seed"])
    yield "decisions", f"{manifest.step:,}" + (f", in {n} environments" if (n := about["num_envs"]) > 1 else "")
    yield "trained with", ", ".join(f"{name} {version}" for name, version in about["versions"].items() if version)


def _returns(home: Path, manifest: Manifest, evaluated: Sequence[Evaluated]) -> str:
    """Mean returns, of kept evaluations and of the last episodes of training."""
    samples = [(f"evaluation, epsilon {found.epsilon:g}", np.array(found.returns)) for found in evaluated]
    if is_run(home):
        run = read_run(home)
        samples.append(("training", run.raw_return[run.step <= manifest.step][-WINDOW:]))
    rows = [(what, *_mean(returns), str(len(returns))) for what, returns in samples if len(returns)]
    if not rows:
        return "**Returns** Not known here: `bdqn evaluate` measures them."
    note = (
        "Raw returns. The intervals are bootstrap intervals over the episodes of this one agent: they do not say how "
        "well another seed would do."
    )
    return _table("Returns", ("episodes of", "mean return", "95 % interval", "episodes"), rows, note)


def _mean(returns: Array) -> tuple[str, str]:
    scores = {"": returns}
    low, high = stats.bootstrap(stats.mean, scores, np.random.default_rng(0))
    return f"{float(stats.mean(scores)):.4g}", f"{float(low):.4g} to {float(high):.4g}"


def _calibration(agent: Path, manifest: Manifest, evaluated: Iterable[Evaluated]) -> str:
    """What evaluations say of its intervals of returns."""
    lines = []
    for found in evaluated:
        for whose, coverage in (("The posterior's own", found.coverage), ("Calibrated", found.calibrated)):
            if coverage is not None:
                lines.append(f"- {whose}, epsilon {found.epsilon:g}: {coverage}.")
    calibration = calibrations.read(agent, manifest)
    if calibration is not None:
        lines.append(
            f"- `calibration.json` rests on {calibration.known} other episodes; `q_posterior(obs).interval(0.9)` uses "
            "it."
        )
    if not lines:
        return "**Intervals of returns** Not measured: `bdqn evaluate --calibrate` does it, if there is a posterior."
    return "\n".join(("**Intervals of returns**", "", *lines))


def _settings(manifest: Manifest) -> str:
    """The settings that differ from the preset's."""
    about = manifest.about
    preset = about["preset"].removesuffix(f"-{about['family']}")
    usual = configure(about["agent"], about["family"], preset).values
    rows = [
        (f"`{name}`", str(value), str(usual.get(name)))
        for name, value in about["settings"].items()
        if value != usual.get(name)
    ]
    if not rows:
        return "**Settings** Those of the preset."
    return _table("Settings that differ from the preset's", ("setting", "this agent", "preset"), rows)


def _use(manifest: Manifest, address: str) -> str:
    again = [
        *(["env=..."] if manifest.about["env"] is None else []),
        *(["network=..."] if manifest.about["own_network"] else []),
    ]
    arguments = ", ".join(['"my-agent"', *again])
    lead = "" if address else " `my-agent` is the directory that this card is in."
    pull = [f"bdqn pull {address} --out my-agent"] if address else []
    shell = _code("sh", *pull, "bdqn watch my-agent", "bdqn evaluate my-agent")
    python = _code("python", "import bdqn", "", f"learner = bdqn.load({arguments})")
    return f"**How to use it**{lead}\n\n{shell}\n\n{python}"


def _code(kind: str, *lines: str) -> str:
    return "\n".join((f"```{kind}", *lines, "```"))


def _table(title: str, heading: Iterable[str], rows: Iterable[Iterable[str]], note: str = "") -> str:
    return grid("", title, heading, rows, note).markdown().strip()
