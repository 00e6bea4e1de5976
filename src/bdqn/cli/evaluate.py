"""``bdqn evaluate``: how good a trained agent is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bdqn.cli.common import RunFailed, correctable, load_to_play, print_rows
from bdqn.cli.options import Parser, add_settings, given
from bdqn.settings import build, setting, settings_of

if TYPE_CHECKING:
    from bdqn.evaluation import Evaluation


@dataclass(frozen=True)
class Options:
    """How to evaluate."""

    episodes: int = setting(20, "complete episodes to play", minimum=1)
    epsilon: float | None = setting(
        None, "share of random actions; unset: the Atari protocol's, else 0", minimum=0, maximum=1
    )
    seed: int = setting(0, "seed of the evaluation, apart from the training's", minimum=0)
    device: str = setting("cpu", "where to compute: cpu, cuda, ...")
    env: str | None = setting(None, "the environment again, where its name imports a module (module:Name-v0)")


def run(argv: list[str]) -> int:
    """Load an agent, let it play, print what came of it."""
    parser = Parser(prog="bdqn evaluate", description="Play with a trained agent and report its raw returns.")
    parser.add_argument("run", metavar="RUN", help="a run's directory, one of its checkpoints, or a saved agent")
    known = settings_of(Options)
    add_settings(parser, known, vars(Options()))
    parser.add_argument("--best", action="store_true", help="the run's best checkpoint instead of the newest")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse(argv)
    options = build(Options, given(args, known))

    from bdqn.evaluation import evaluate
    from bdqn.finite import NonFiniteError

    with correctable():
        learner = load_to_play(Path(args.run), options.env, options.device, best=args.best)
    protocol = learner.configuration.atari.resolve()
    usual = protocol.evaluation_epsilon if learner.configuration.family == "atari" else None
    epsilon = (usual or 0.0) if options.epsilon is None else options.epsilon
    try:
        result = evaluate(learner, options.episodes, epsilon=epsilon, seed=options.seed, spread=True)
    except NonFiniteError as error:
        raise RunFailed(str(error)) from error
    if args.json:
        _print_json(learner.num_timesteps, epsilon, result)
    else:
        agent, env = learner.configuration.agent, learner.env_source
        print(f"{agent} on {env} after {learner.num_timesteps:,} decisions")
        _print_text(epsilon, result)
    return 0


def _print_text(epsilon: float, result: Evaluation) -> None:
    rows = {
        "episodes": f"{len(result.returns)} (epsilon {epsilon:g})",
        "mean return": f"{result.mean:.2f}",
        "std": f"{result.std:.2f}",
        "min": f"{min(result.returns):.2f}",
        "max": f"{max(result.returns):.2f}",
        "mean length": f"{sum(result.lengths) / len(result.lengths):.1f} decisions",
    }
    if result.spread is not None:
        rows["mean epistemic std of Q"] = f"{result.spread:.4g}"
    print_rows(rows)


def _print_json(steps: int, epsilon: float, result: Evaluation) -> None:
    summary = {
        "step": steps,
        "epsilon": epsilon,
        "mean_reward": result.mean,
        "std_reward": result.std,
        "min_reward": min(result.returns),
        "max_reward": max(result.returns),
        "epistemic_std": result.spread,
        "returns": result.returns,
        "lengths": result.lengths,
    }
    print(json.dumps(summary))
