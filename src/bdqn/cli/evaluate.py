"""``bdqn evaluate``: plays episodes with trained agents and reports their returns."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdqn.cli.common import RunFailed, known_cause, load_to_play, print_rows, runs_at, say, user_errors
from bdqn.cli.options import Parser, add_settings, given
from bdqn.config.settings import SettingError, build, setting, settings_of
from bdqn.storage.safe_files import inside

if TYPE_CHECKING:
    from bdqn.runs.evaluation import Evaluation


@dataclass(frozen=True)
class Options:
    """Options of ``bdqn evaluate``."""

    episodes: int = setting(20, "complete episodes to play", minimum=1)
    epsilon: float | None = setting(
        None, "probability of a random action; unset: the Atari protocol's, otherwise 0", minimum=0, maximum=1
    )
    seed: int = setting(0, "seed of the evaluation, independent of training", minimum=0)
    device: str = setting("cpu", "device of the network: cpu, cuda, ...")
    env: str | None = setting(None, "the environment again, if its id imports a module (module:Name-v0)")
    max_steps: int | None = setting(
        None,
        "decisions after which an episode is truncated; unset: 27,000 if the environment has no time limit",
        minimum=1,
    )


@dataclass(frozen=True)
class Played:
    """An agent and its evaluation."""

    who: str
    steps: int
    epsilon: float
    result: Evaluation

    @property
    def summary(self) -> dict[str, Any]:
        """The evaluation as JSON values."""
        result = self.result
        return {
            "step": self.steps,
            "epsilon": self.epsilon,
            "mean_reward": result.mean,
            "std_reward": result.std,
            "min_reward": min(result.returns),
            "max_reward": max(result.returns),
            "epistemic_std": result.spread,
            "returns": result.returns,
            "lengths": result.lengths,
            "cut": result.cut,
        }


def run(argv: list[str]) -> int:
    """Load each agent, play and print the results."""
    parser = Parser(prog="bdqn evaluate", description="Play episodes with trained agents and report their raw returns.")
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help="a run's directory, one of its checkpoints, a saved agent, or a directory with runs or sweeps below it",
    )
    known = settings_of(Options)
    add_settings(parser, known, vars(Options()))
    parser.add_argument("--best", action="store_true", help="use the run's best checkpoint instead of the newest")
    parser.add_argument("--keep", action="store_true", help="save the result in the run's directory, for bdqn report")
    parser.add_argument("--json", action="store_true", help="print one JSON object per run, one per line")
    args = parser.parse(argv)
    options = build(Options, given(args, known))
    if args.keep and args.best:
        raise SettingError("--keep applies to the newest checkpoint, which reports compare: omit --best.")
    # Keep the typed and the absolute path: an environment may change the working directory.
    runs = [
        (folder.joinpath(*names), folder.absolute(), names)
        for folder in runs_at(args.runs)
        for names in _runs_in(folder)
    ]
    failed = []
    for path, folder, names in runs:
        try:
            place = inside(folder, *names)
            if args.keep and place.exists() and not (place / "config.toml").is_file():
                raise SettingError(f"{path} is not a run's directory, so --keep cannot save its evaluation there.")
            played = _play(place, options, best=args.best)
            _print(played, path if len(runs) > 1 else None, as_json=args.json)
            if args.keep:
                _keep(played, place)
        except (SettingError, RunFailed) as error:
            if len(runs) == 1:
                raise
            named = str(error) if str(path) in str(error) else f"{path}: {error}"
            say(f"bdqn: {named}", file=sys.stderr)
            failed.append(str(path))
    if failed:
        raise RunFailed(f"{len(failed)} of {len(runs)} runs could not be evaluated: {', '.join(failed)}.")
    return 0


def _runs_in(path: Path) -> list[tuple[str, ...]]:
    """Return the relative path parts of all runs of a sweep. Anything else counts as one run itself."""
    from bdqn.sweep.folder import TRIALS, SweepFolder

    with user_errors():
        return [(TRIALS, row["trial"]) for row in SweepFolder(path).rows()] or [()]


def _play(path: Path, options: Options, *, best: bool) -> Played:
    from bdqn.runs.evaluation import evaluate

    with user_errors():
        learner = load_to_play(path, options.env, options.device, best=best)
    protocol = learner.configuration.atari.resolve()
    usual = protocol.evaluation_epsilon if learner.configuration.family == "atari" else None
    epsilon = (usual or 0.0) if options.epsilon is None else options.epsilon
    try:
        result = evaluate(
            learner, options.episodes, epsilon=epsilon, seed=options.seed, spread=True, max_steps=options.max_steps
        )
    except Exception as error:
        reason = known_cause(error)
        if reason is None:
            raise
        raise RunFailed(reason) from error
    finally:
        learner.envs.close()
    return Played(f"{learner.configuration.agent} on {learner.env_source}", learner.num_timesteps, epsilon, result)


def _keep(played: Played, folder: Path) -> None:
    """Save an evaluation in the run's directory. Replaces an earlier one with the same epsilon."""
    from bdqn.storage import atomic

    with user_errors():
        atomic.write_file(folder / f"evaluation-{played.epsilon:g}.json", json.dumps(played.summary).encode() + b"\n")


def _print(played: Played, path: Path | None, *, as_json: bool) -> None:
    """Print an evaluation. ``path`` identifies it among several."""
    if as_json:
        print(json.dumps({**({} if path is None else {"run": str(path)}), **played.summary}), flush=True)
        return
    place = "" if path is None else f"{path}: "
    say(f"{place}{played.who} after {played.steps:,} decisions")
    result = played.result
    rows = {
        "episodes": f"{len(result.returns)} (epsilon {played.epsilon:g})",
        "mean return": f"{result.mean:.2f}",
        "std": f"{result.std:.2f}",
        "min": f"{min(result.returns):.2f}",
        "max": f"{max(result.returns):.2f}",
        "mean length": f"{sum(result.lengths) / len(result.lengths):.1f} decisions",
    }
    if result.spread is not None:
        rows["mean epistemic std of Q"] = f"{result.spread:.4g}"
    if result.cut:
        rows["truncated"] = f"{result.remark} (--max-steps)"
    print_rows(rows)
