"""``bdqn tune``: tunes the posterior on a trained agent's features, or any settings with Optuna."""

from __future__ import annotations

import math
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdqn.agents.bdqn import Settings
from bdqn.cli.common import RunFailed, prepare_torch, say, user_errors
from bdqn.cli.options import Parser, add_settings, flag, flags, given, other_options, text_of
from bdqn.config.settings import Setting, SettingError, build, setting, settings_of
from bdqn.runs.progress import duration, ignoring_output_errors
from bdqn.storage import atomic
from bdqn.storage.safe_files import printable

if TYPE_CHECKING:
    from bdqn.tune.frozen import Donor, Stage, Tried

INTERVAL = 5.0  # seconds between progress lines, without a terminal

# Tunable settings: their help text, and a word that is allowed in place of a number.
TRIED = {
    "posterior_batch_size": ("B: transitions per refit [T^T and 10 T^T of the run]", None),
    "prior_var": ("prior variance of the weights [1 0.1 0.001]", None),
    "noise_var": ("noise variance, or learned [1 10]", "learned"),
    "posterior_update_interval": ("T^BT: decisions between refits [10 T^T and T^T]", None),
    "sample_interval": ("T^S: decisions between draws, or episode [T^T / 10 and T^T / 100]", "episode"),
}


@dataclass(frozen=True)
class Options:
    """Options of ``bdqn tune``."""

    episodes: int = setting(50, "episodes that each candidate plays (the paper: 1000)", minimum=1)
    seed: int = setting(0, "seed of the played episodes, the same for every candidate", minimum=0)
    collect: int | None = setting(
        None,
        "decisions to play to collect transitions; unset: use the run's replay buffer, or 10 T^T without one",
        minimum=1,
    )
    device: str = setting("cpu", "device of the network: cpu, cuda, ...")
    env: str | None = setting(None, "the environment again, if its id imports a module (module:Name-v0)")
    max_steps: int | None = setting(
        None,
        "decisions after which an episode is truncated; unset: 27,000 if the environment has no time limit",
        minimum=1,
    )
    out: str | None = setting(None, "write the chosen settings to this TOML file")


def run(argv: list[str]) -> int:
    """Tune the posterior, or with --search any settings."""
    if any(word.partition("=")[0] == "--search" for word in argv):
        from bdqn.cli import tune_search

        return tune_search.run(argv)
    parser = Parser(
        prog="bdqn tune",
        usage="bdqn tune RUN [--prior-var X ...] [--noise-var X ...] [...]\n"
        "       bdqn tune --search FILE [--out DIR] [--help]",
        description="Tune the posterior of Bayesian DQN on the frozen features of a trained agent. Stage 1 tries B, "
        "prior_var and noise_var; stage 2 tries T^BT and T^S. Values in [brackets] are the paper's; the preset's "
        "own are also tried.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's directory, one of its checkpoints, or a saved agent")
    for name, (meaning, _) in TRIED.items():
        parser.add_argument(flag(name), dest=name, nargs="+", metavar="X", help=meaning)
    known = settings_of(Options)
    add_settings(parser, known, vars(Options()))
    args = parser.parse(argv)
    options = build(Options, given(args, known))
    settings = settings_of(Settings)
    values = {name: _values(settings[name], getattr(args, name)) for name in TRIED if getattr(args, name)}
    # Absolute: an environment may change the working directory.
    out = None if options.out is None else Path(options.out).absolute()
    with user_errors():  # the path may be too long
        if out is not None and (out.is_dir() or not out.parent.is_dir()):
            raise SettingError(f"--out must be a file in an existing directory, not {options.out}.")
    _tune(Path(args.run), values, options, out, shlex.join(["bdqn", "tune", *argv]))
    return 0


def _values(known: Setting, texts: Sequence[str]) -> list[Any]:
    """Parse and validate the candidates for a setting."""
    word = TRIED[known.name][1]
    values = [text if text == word else known.parse(text) for text in texts]
    for value in values:
        if value != word:
            known.check(value)
    return values


def _tune(path: Path, values: Mapping[str, Sequence[Any]], options: Options, out: Path | None, command: str) -> None:
    from bdqn.bayes.numerics import PosteriorError
    from bdqn.qlearning.finite_checks import NonFiniteError
    from bdqn.storage import checkpoint_files
    from bdqn.storage.saved_agents import find_agent
    from bdqn.tune.frozen import as_settings, load_donor, search

    with user_errors():
        prepare_torch(options.device, checkpoint_files.read(find_agent(path)).about["family"])
        donor = load_donor(path.absolute(), options.env, device=options.device, collect=options.collect)
    _announce(donor, options)
    try:
        with _outlook() as progress:
            found = search(
                donor,
                values,
                options.episodes,
                options.seed,
                begin=_heading,
                report=_row,
                progress=progress,
                max_steps=options.max_steps,
            )
            stages = list(found)
    except (NonFiniteError, PosteriorError) as error:
        raise RunFailed(str(error)) from error
    finally:
        donor.learner.envs.close()
    for note in _notes(stages, len(donor.learner.agent.replay)):
        print(f"note: {note}")
    chosen = as_settings(stages[-1].best.values)
    print()
    say(f"best settings by mean return: {_train_command(donor, chosen)}")
    if out is not None:
        from bdqn.storage.toml import toml_text

        beside = other_options(donor.preset, donor.learner.envs.num_envs)
        with user_errors():
            text = toml_text({**beside, "agents": {"bdqn": {**donor.given, **chosen}}})
            atomic.write_output(out, f"# {printable(command)}\n{text}")
        say(f"{options.out}: the same settings for a sweep file")


@contextmanager
def _outlook() -> Iterator[Callable[[float], None]]:
    """Yield a callback for the fraction of work done, which shows the time left on stderr.

    stdout stays deterministic.
    """
    began = time.monotonic()

    def left(share: float) -> str:
        return f"{duration((time.monotonic() - began) * (1 - share) / share)} left"

    if sys.stderr.isatty():
        from rich import progress as rich
        from rich.console import Console

        columns = (rich.BarColumn(), rich.TaskProgressColumn(), rich.TextColumn("about {task.description}"))
        console, together = Console(stderr=True), sys.stdout.isatty()
        with rich.Progress(*columns, console=console, transient=True, redirect_stdout=together) as display:
            task = display.add_task("unknown time left", total=1.0)
            yield lambda share: display.update(task, completed=share, description=left(share))
    else:
        due = began + INTERVAL

        def tell(share: float) -> None:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + INTERVAL
                with ignoring_output_errors(sys.stderr):
                    print(f"bdqn: {share:.0%} of the episodes played, about {left(share)}", file=sys.stderr)

        yield tell


def _announce(donor: Donor, options: Options) -> None:
    learner = donor.learner
    source = f"from {donor.played:,} decisions played for it" if donor.played else "from the run's replay buffer"
    say(f"{learner.configuration.agent} on {learner.env_name}, trained for {_trained(donor):,} decisions")
    print(
        "  frozen       its torso and dense layers; a Bayesian last layer replaces its own\n"
        f"  regressed on {len(learner.agent.replay):,} transitions ({source}), and those that each candidate adds\n"
        f"  played       {options.episodes} episodes per candidate with Thompson sampling, seed {options.seed}",
        flush=True,
    )


def _trained(donor: Donor) -> int:
    return donor.learner.num_timesteps - donor.played


def _heading(names: Sequence[str]) -> None:
    print(f"\n{'  '.join(names)}  mean return  standard error  draw differs", flush=True)


def _row(names: Sequence[str], tried: Tried) -> None:
    columns = "  ".join(f"{text_of(tried.values[name]):>{len(name)}}" for name in names)
    error = "-" if math.isnan(tried.standard_error) else f"{tried.standard_error:.2f}"
    print(f"{columns}  {tried.mean:>11.2f}  {error:>14}  {tried.differs:>12.1%}", flush=True)


def _notes(stages: Sequence[Stage], held: int) -> Iterator[str]:
    """Yield remarks that the table does not show."""
    tried = [one for stage in stages for one in stage.tried]
    sizes = sorted({one.values["posterior_batch_size"] for one in tried})
    if sizes[-1] > held:
        above = " and ".join(str(size) for size in sizes if size > held)
        yield f"B = {above}: more than the {held:,} available transitions, so all of them are used."
    if cut := sum(one.cut for one in tried):
        played = sum(len(one.returns) for one in tried)
        yield f"{cut:,} of {played:,} episodes were truncated (--max-steps): their returns count up to there."
    if not all(one.refits for one in tried):
        yield "a candidate that played fewer than T^BT decisions was not refitted: increase --episodes."


def _train_command(donor: Donor, chosen: Mapping[str, Any]) -> str:
    """Return the command that trains with the chosen posterior."""
    learner = donor.learner
    kwargs = [f"{name}={text_of(value)}" for name, value in learner.env_kwargs.items()]
    words = ["bdqn", "train", "--env", learner.env_name, "--agent", "bdqn"]
    words += flags(other_options(donor.preset, learner.envs.num_envs))
    words += ["--env-kwargs", *kwargs] if kwargs else []
    words += flags({**donor.given, **chosen})
    return shlex.join(words)
