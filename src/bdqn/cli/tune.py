"""``bdqn tune``: settings of the posterior for a trained agent's features, or any settings by Optuna."""

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
from bdqn.cli.common import RunFailed, correctable, prepare_torch, say
from bdqn.cli.options import Parser, add_settings, beside_settings, flag, flags, given, text_of
from bdqn.config.settings import Setting, SettingError, build, setting, settings_of
from bdqn.runs.progress import duration, unheard_is_fine
from bdqn.storage.safe_files import printable

if TYPE_CHECKING:
    from bdqn.tune.frozen import Donor, Stage, Tried

INTERVAL = 5.0  # seconds between lines about the time left, where there is no terminal

# What can be tried; a word in a number's place is another way.
TRIED = {
    "posterior_batch_size": ("B: transitions per refit [T^T and 10 T^T of the run]", None),
    "prior_var": ("variance of the weights' prior [1 0.1 0.001]", None),
    "noise_var": ("variance of the noise, or learned [1 10]", "learned"),
    "posterior_update_interval": ("T^BT: decisions between refits [10 T^T and T^T]", None),
    "sample_interval": ("T^S: decisions between draws, or episode [T^T / 10 and T^T / 100]", "episode"),
}


@dataclass(frozen=True)
class Options:
    """How to try them."""

    episodes: int = setting(50, "episodes that each candidate plays (the paper: 1000)", minimum=1)
    seed: int = setting(0, "seed of what is played, the same for every candidate", minimum=0)
    collect: int | None = setting(
        None,
        "decisions to play for the regression's transitions; unset: the run's replay memory, or 10 T^T without one",
        minimum=1,
    )
    device: str = setting("cpu", "where the network computes: cpu, cuda, ...")
    env: str | None = setting(None, "the environment again, where its name imports a module (module:Name-v0)")
    max_steps: int | None = setting(
        None,
        "decisions after which an episode is cut; unset: 27,000 where the environment has no time limit",
        minimum=1,
    )
    out: str | None = setting(None, "a TOML file for the chosen settings")


def run(argv: list[str]) -> int:
    """Tune one way or the other."""
    if any(word.partition("=")[0] == "--search" for word in argv):
        from bdqn.cli import searching

        return searching.run(argv)
    parser = Parser(
        prog="bdqn tune",
        usage="bdqn tune RUN [--prior-var X ...] [--noise-var X ...] [...]\n"
        "       bdqn tune --search FILE [--out DIR] [--help]",
        description="Choose settings of Bayesian DQN's posterior on the features of a trained agent, which stay as "
        "they are: stage 1 tries B, prior_var and noise_var, stage 2 T^BT and T^S. Values in [brackets] are "
        "the paper's; the preset's own are tried beside them.",
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
    out = None if options.out is None else Path(options.out).absolute()  # an environment may go elsewhere
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise SettingError(f"--out must be a file in a directory that is there, not {options.out}.")
    _tune(Path(args.run), values, options, out, shlex.join(["bdqn", "tune", *argv]))
    return 0


def _values(known: Setting, texts: Sequence[str]) -> list[Any]:
    """Candidates for a setting, each checked."""
    word = TRIED[known.name][1]
    values = [text if text == word else known.parse(text) for text in texts]
    for value in values:
        if value != word:
            known.check(value)
    return values


def _tune(path: Path, values: Mapping[str, Sequence[Any]], options: Options, out: Path | None, command: str) -> None:
    from bdqn.bayes.posterior import PosteriorError
    from bdqn.qlearning.finite_checks import NonFiniteError
    from bdqn.storage import checkpoint_files
    from bdqn.storage.saved_agents import find_agent
    from bdqn.tune.frozen import as_settings, load_donor, search

    with correctable():
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
    say(f"chosen, with the highest means: {_train_command(donor, chosen)}")
    if out is not None:
        from bdqn.storage.toml import toml_text

        beside = beside_settings(donor.preset, donor.learner.envs.num_envs)
        with correctable():
            text = toml_text({**beside, "agents": {"bdqn": {**donor.given, **chosen}}})
            out.write_text(f"# {printable(command)}\n{text}", encoding="utf-8")
        say(f"{options.out}: the same, for a sweep file")


@contextmanager
def _outlook() -> Iterator[Callable[[float], None]]:
    """Something to be told what share of the work is done; it says on stderr how long the rest may take.

    Not on stdout: what is printed there is the same every time.
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
                with unheard_is_fine(sys.stderr):
                    print(f"bdqn: {share:.0%} of the episodes are played, about {left(share)}", file=sys.stderr)

        yield tell


def _announce(donor: Donor, options: Options) -> None:
    learner = donor.learner
    source = f"{donor.played:,} decisions played for this" if donor.played else "the run's replay memory"
    say(f"{learner.configuration.agent} on {learner.env_name}, trained for {_trained(donor):,} decisions")
    print(
        "  frozen       its torso and dense layers; a Bayesian last layer takes the place of its own\n"
        f"  regressed on {len(learner.agent.replay):,} transitions ({source}), and what each candidate adds\n"
        f"  played       {options.episodes} episodes for each candidate, by Thompson sampling, seed {options.seed}",
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
    """What the candidates' values do not say of what was done."""
    tried = [one for stage in stages for one in stage.tried]
    sizes = sorted({one.values["posterior_batch_size"] for one in tried})
    if sizes[-1] > held:
        above = " and ".join(str(size) for size in sizes if size > held)
        yield f"B = {above}: above the {held:,} transitions that there are, of which it takes all."
    if cut := sum(one.cut for one in tried):
        played = sum(len(one.returns) for one in tried)
        yield f"{cut:,} of {played:,} episodes did not end and were cut (--max-steps): they count up to there."
    if not all(one.refits for one in tried):
        yield "a candidate that played for less than T^BT was not refitted: --episodes gives more."


def _train_command(donor: Donor, chosen: Mapping[str, Any]) -> str:
    """The same training with the chosen posterior."""
    learner = donor.learner
    kwargs = [f"{name}={text_of(value)}" for name, value in learner.env_kwargs.items()]
    words = ["bdqn", "train", "--env", learner.env_name, "--agent", "bdqn"]
    words += flags(beside_settings(donor.preset, learner.envs.num_envs))
    words += ["--env-kwargs", *kwargs] if kwargs else []
    words += flags({**donor.given, **chosen})
    return shlex.join(words)
