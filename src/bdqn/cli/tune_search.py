"""``bdqn tune --search``: searches settings with Optuna, running each trial as a sweep."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bdqn.cli.common import RunFailed, disk_errors, say, user_errors
from bdqn.cli.options import Parser, flags, other_options, text_of
from bdqn.config.settings import SettingError

if TYPE_CHECKING:
    from bdqn.tune.space import Search
    from bdqn.tune.study import Outcome

SHOWN = 5  # trials in the final table


def run(argv: list[str]) -> int:
    """Run or continue the search until all trials are finished, and print the best settings."""
    parser = Parser(
        prog="bdqn tune --search",
        usage="bdqn tune --search FILE [--out DIR] [--workers N] [--retries N] [--quiet]",
        description="Search settings with Optuna. After an interruption, the same command continues the search.",
    )
    parser.add_argument("--search", metavar="FILE", required=True, help="the search file (docs/tune.md)")
    parser.add_argument("--out", metavar="DIR", help="directory for the study and its runs [out/NAME-FILE]")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="number of parallel runs [%(default)s]"
    )
    parser.add_argument("--retries", type=int, default=3, help="retries of a run whose process dies [%(default)s]")
    parser.add_argument("--quiet", action="store_true", help="print only the result")
    args = parser.parse(argv)
    for name, least in (("workers", 1), ("retries", 0)):
        if getattr(args, name) < least:
            raise SettingError(f"--{name} must be at least {least}, not {getattr(args, name)}.")
    from bdqn.cli.sweep import check_environments, default_out
    from bdqn.tune.space import read_search
    from bdqn.tune.study import require_optuna

    path = Path(args.search)
    search = read_search(path)
    check_environments(search.sweep(0, {}))
    require_optuna()
    out = Path(args.out) if args.out else default_out(path)
    return _execute(search, out, args.workers, args.retries, quiet=args.quiet)


def _execute(search: Search, out: Path, workers: int, retries: int, *, quiet: bool) -> int:
    from functools import partial

    from bdqn.cli.running import interruptible
    from bdqn.runs.directory import claim_directory, locked
    from bdqn.sweep.display import watching
    from bdqn.sweep.folder import SweepFolder
    from bdqn.sweep.local import Local
    from bdqn.sweep.plan import Sweep
    from bdqn.tune.study import open_study, outcomes, run_search

    with user_errors():
        folder = SweepFolder(claim_directory(out))
    with locked(out, new=False):
        with user_errors():
            folder.prepare(Sweep(()))
            study = open_study(search, out)
        watch = partial(watching, folder=folder, quiet=quiet)
        with disk_errors(), interruptible() as stop:
            for outcome in run_search(search, study, folder, Local(), workers, retries, watch, stop):
                if not quiet or outcome.score is None:
                    say(_line(search, outcome))
        found = outcomes(study)
    # The file may now ask for fewer trials than are finished.
    print(f"{len(found)} of {max(search.trials, len(found))} trials are finished.")
    if len(found) < search.trials:
        return 130
    if found[0].score is None:
        raise RunFailed(f"All trials failed: see {out / 'logs'}.")
    _print_summary(search, found, out)
    return 0


def _line(search: Search, outcome: Outcome) -> str:
    values = " ".join(f"{name}={_short(value)}" for name, value in outcome.values.items())
    score = f"failed: {outcome.message}" if outcome.score is None else f"{outcome.score:.2f}"
    return f"trial {outcome.number}: {search.objective} {score}  {values}"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else text_of(value)


def _print_summary(search: Search, found: Sequence[Outcome], out: Path) -> None:
    from bdqn.storage import atomic
    from bdqn.storage.toml import toml_text

    print("\nbest trials:")
    for outcome in found[:SHOWN]:
        if outcome.score is not None:
            say(f"  {_line(search, outcome)}")
    trial = search.sweep(found[0].number, found[0].values).trials[0]
    words = ["bdqn", "train", "--env", trial.env, "--agent", trial.agent]
    beside = other_options(trial.preset, trial.num_envs)
    words += flags({**beside, **trial.settings})
    print(f"\n{shlex.join(words)}")
    with user_errors():
        best = toml_text({**beside, "agents": {search.group: {"agent": trial.agent, **trial.settings}}})
        atomic.write_file(out / "best.toml", best.encode())
    print(f"{out}: {out / 'best.toml'} has the same settings for a sweep file; bdqn compare {out} shows all runs")
