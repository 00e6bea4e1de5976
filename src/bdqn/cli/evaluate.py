"""``bdqn evaluate``: plays episodes with trained agents and reports their returns."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bdqn.cli.common import RunFailed, known_cause, load_to_play, print_rows, runs_at, say, user_errors
from bdqn.cli.options import Parser, add_settings, given
from bdqn.config.settings import SettingError, build, setting, settings_of
from bdqn.storage.safe_files import inside

if TYPE_CHECKING:
    from bdqn.learner import Learner
    from bdqn.qlearning.calibration import Coverage
    from bdqn.qlearning.choices import Policy
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
    act: Literal["mean", "safe:lcb", "safe:cvar"] = setting(
        "mean",
        "greedily under the mean, or safely: by the bound that returns exceed with probability safety_level, or by the "
        "mean of the others; calibrated if the run is, otherwise by the std of Q",
    )
    safety_level: float = setting(0.9, "probability of --act safe:...", minimum=0.5, maximum=0.999)
    calibration_episodes: int = setting(
        100, "episodes that --calibrate plays beside those of the evaluation; 99 % intervals need 199", minimum=1
    )


@dataclass(frozen=True)
class Played:
    """An agent and its evaluation."""

    who: str
    steps: int
    epsilon: float
    act: str  # by the mean, or by what measure of safety, and on which spread
    result: Evaluation
    coverage: Coverage | None  # of the posterior's own intervals; None: it has none, or follows another policy
    calibrated: Coverage | None  # of calibrated ones; None: not calibrated, either
    calibration: str = ""  # where it was stored, if it is new

    @property
    def summary(self) -> dict[str, Any]:
        """The evaluation as JSON values."""
        result = self.result
        return {
            "step": self.steps,
            "epsilon": self.epsilon,
            **({} if self.act == "mean" else {"act": self.act}),
            "mean_reward": result.mean,
            "std_reward": result.std,
            "min_reward": min(result.returns),
            "max_reward": max(result.returns),
            "epistemic_std": result.spread,
            "coverage": _values(self.coverage),
            "calibrated_coverage": _values(self.calibrated),
            "returns": result.returns,
            "lengths": result.lengths,
            "cut": result.cut,
        }


def _values(coverage: Coverage | None) -> dict[str, Any] | None:
    return None if coverage is None or not coverage.episodes else asdict(coverage)


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
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="store how far returns lie from Q, so that intervals can be trusted",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per run, one per line")
    args = parser.parse(argv)
    options = build(Options, given(args, known))
    if args.keep and args.best:
        raise SettingError("--keep applies to the newest checkpoint, which reports compare: omit --best.")
    if args.calibrate and args.best:
        raise SettingError("--calibrate applies to the newest checkpoint, which load() returns: omit --best.")
    if args.keep and options.act != "mean":
        raise SettingError("--keep stores how good the greedy policy is: omit --act, or --keep.")
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
            played = _play(place, options, best=args.best, calibrate=args.calibrate)
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


def _play(path: Path, options: Options, *, best: bool, calibrate: bool) -> Played:
    from bdqn.runs.evaluation import evaluate

    with user_errors():
        learner = load_to_play(path, options.env, options.device, best=best)
    protocol = learner.configuration.atari.resolve()
    usual = protocol.evaluation_epsilon if learner.configuration.family == "atari" else None
    epsilon = (usual or 0.0) if options.epsilon is None else options.epsilon
    try:
        stored = _calibrate(learner, path, options) if calibrate else ""
        act, policy = _policy(learner, options)
        result = evaluate(
            learner,
            options.episodes,
            epsilon=epsilon,
            seed=options.seed,
            spread=True,
            max_steps=options.max_steps,
            policy=policy,
        )
    except Exception as error:
        reason = known_cause(error)
        if reason is None:
            raise
        raise RunFailed(reason) from error
    finally:
        learner.envs.close()
    outcomes, calibration = result.outcomes, learner.calibration
    return Played(
        f"{learner.configuration.agent} on {learner.env_source}",
        learner.num_timesteps,
        epsilon,
        act,
        result,
        None if outcomes is None else outcomes.coverage(),
        None if outcomes is None or calibration is None else outcomes.calibrated_coverage(calibration),
        stored,
    )


def _policy(learner: Learner, options: Options) -> tuple[str, Policy | None]:
    """How to act, in words, and the policy that does it; none where that is the agent's mean."""
    from bdqn.qlearning.judgement import safe_policy

    if options.act == "mean":
        return options.act, None
    with user_errors():
        learner.q_posterior(learner.envs.obs)  # an agent without a posterior says so
    known = learner.calibration is not None
    spread = "calibrated on returns" if known else "by the std of Q, which is not that of returns (--calibrate)"
    policy = safe_policy(options.act.removeprefix("safe:"), options.safety_level, learner.calibration)
    return f"{options.act}, {options.safety_level:g}, {spread}", policy


def _calibrate(learner: Learner, path: Path, options: Options) -> str:
    """Calibrate and store it beside the agent. Says on what it rests."""
    from bdqn.storage import calibrations, checkpoint_files
    from bdqn.storage.saved_agents import find_agent

    with user_errors():
        found = learner.calibrate(options.calibration_episodes, seed=options.seed, max_steps=options.max_steps)
        folder = find_agent(path)
        manifest = checkpoint_files.read(folder)
        return f"{found.known} other episodes, in {calibrations.write(folder, found, manifest)}"


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
        **({} if played.act == "mean" else {"acts by": played.act}),
        "mean return": f"{result.mean:.2f}",
        "std": f"{result.std:.2f}",
        "min": f"{min(result.returns):.2f}",
        "max": f"{max(result.returns):.2f}",
        "mean length": f"{sum(result.lengths) / len(result.lengths):.1f} decisions",
    }
    if result.spread is not None:
        rows["mean epistemic std of Q"] = f"{result.spread:.4g}"
    if played.coverage is not None:
        rows["by that std"] = str(played.coverage)
    if played.calibrated is not None:
        rows["calibrated"] = str(played.calibrated)
    if played.calibration:
        rows["calibrated on"] = played.calibration
    if result.cut:
        rows["truncated"] = f"{result.remark} (--max-steps)"
    print_rows(rows)
