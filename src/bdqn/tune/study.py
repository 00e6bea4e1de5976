"""Runs a search: Optuna proposes settings, a sweep runs them, and the objective is their mean score over seeds.

OUT/study.jsonl         Optuna's proposals and their scores
OUT/trials.csv, ...     all runs, as in a sweep's directory

After an interruption, unfinished trials resume first.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bdqn.config.extras import missing
from bdqn.config.seeding import integer_seed
from bdqn.config.settings import SettingError
from bdqn.report.compare import read_result
from bdqn.storage import atomic, safe_files
from bdqn.storage.safe_files import DamagedFile
from bdqn.sweep.engine import Engine, Work, run_sweep
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.plan import Sweep
from bdqn.tune.space import Range, Search

if TYPE_CHECKING:
    import optuna

FILE = "study.jsonl"
NAME = "search"


@dataclass(frozen=True)
class Outcome:
    """The result of a trial."""

    number: int
    values: Mapping[str, Any]
    score: float | None  # None: it failed
    message: str = ""


def require_optuna() -> None:
    """Raise SettingError with the extra to install if Optuna is missing."""
    try:
        import optuna
    except ImportError as error:
        raise SettingError(missing("--search", "tune", error)) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def open_study(search: Search, folder: Path) -> optuna.Study:
    """Open the study in this directory, or create one. Refuses the study of another search."""
    path = folder.resolve() / FILE
    _drop_incomplete_line(path)
    # Optuna's own lock may be left by a kill. The directory is locked already, so no other process can hold it.
    path.with_name(f"{FILE}.lock").unlink(missing_ok=True)
    with _damage_named(path):
        study = _load_study(path)
    known = study.user_attrs.get("search", search.fingerprint)
    if known != search.fingerprint:
        raise SettingError(
            f"{folder} holds another search: only the number of trials may change. Choose another directory."
        )
    with _damage_named(path):
        study.set_user_attr("search", search.fingerprint)
        _check_trials(search, study)
    return study


def _load_study(path: Path) -> optuna.Study:
    import optuna
    from optuna.storages.journal import JournalFileBackend

    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage, study_name=NAME, direction="maximize", load_if_exists=True)
    if optuna.get_all_study_names(storage) != [NAME]:
        raise ValueError("it contains another study")
    return study


def _check_trials(search: Search, study: optuna.Study) -> None:
    """Refuse trials that this search cannot have written. Optuna reads most of them without a complaint."""
    import optuna

    optuna.create_study(direction=study.direction).add_trials(study.trials)  # checks values against ranges
    known = _distributions(search)
    states = optuna.trial.TrialState
    for trial in study.trials:
        if trial.state not in (states.RUNNING, states.COMPLETE, states.FAIL):
            raise ValueError(f"trial {trial.number} is in the state {trial.state.name}")
        if trial.state is states.COMPLETE and not (trial.value is not None and math.isfinite(trial.value)):
            raise ValueError(f"trial {trial.number} has the score {trial.value}")
        is_complete = trial.state is states.COMPLETE or trial.params.keys() == known.keys()
        if is_complete and trial.distributions != known:
            raise ValueError(f"trial {trial.number} has other settings than the search")


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Turn errors in the block into DamagedFile: nothing but this file is read in it."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # Optuna trusts its files, so damaged ones lead to errors of any type
        raise DamagedFile(
            f"{path} is damaged ({type(error).__name__}: {error!s:.200}): move it away and run the same command: it "
            "repeats the search with the runs that are there."
        ) from error


def _drop_incomplete_line(path: Path) -> None:
    """Remove an incomplete last line, which a kill may leave and which would corrupt the next."""
    with suppress(FileNotFoundError):
        data = safe_files.read(path, safe_files.STUDY)
        complete = data[: data.rfind(b"\n") + 1]
        if complete != data:
            atomic.write_file(path, complete)


def run_search(
    search: Search,
    study: optuna.Study,
    folder: SweepFolder,
    engine: Engine,
    workers: int,
    retries: int,
    watching: Callable[[Sweep], AbstractContextManager[Callable[[Work], None]]],
    stop: Callable[[], bool],
) -> Iterator[Outcome]:
    """Run trials until the study has all of them or ``stop()`` is true. Yields each outcome.

    Runs enough trials at a time to keep all workers busy.
    """
    while not stop():
        started = dict(_next_batch(search, study, workers))
        if not started:
            return
        runs = {trial.name: trial for sweep in started.values() for trial in sweep.trials}  # trials may share runs
        batch = Sweep(tuple(runs.values()))
        folder.prepare(batch)
        with watching(batch) as watch:
            work = run_sweep(batch, folder, engine, workers, retries, watch, stop)
        for number, sweep in started.items():
            values = study.trials[number].params
            outcome = _score(search, folder, work, number, sweep, values)
            if outcome is not None:
                _record_outcome(study, outcome)
                yield outcome


def _next_batch(search: Search, study: optuna.Study, workers: int) -> Iterator[tuple[int, Sweep]]:
    """Yield the trials to run now: unfinished ones, or new ones if there are none.

    A proposal thus never depends on where an earlier batch was interrupted.
    """
    import optuna

    started = []
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        if trial.params.keys() == search.space.keys():
            started.append((trial.number, search.sweep(trial.number, trial.params)))
        else:  # an earlier version was killed while writing a proposal value by value
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    if started:
        yield from started
        return
    seeds = len(search.sweep(0, {}).trials)
    while len(started) < max(1, workers // seeds) and len(study.trials) < search.trials:
        number, values = _ask(search, study)
        started.append((number, search.sweep(number, values)))
    yield from started


def _ask(search: Search, study: optuna.Study) -> tuple[int, dict[str, Any]]:
    """Return a new proposal. Its seed depends on its number, so interruptions do not change proposals.

    The proposal is made on a copy in memory and written to the study as one line, so a kill leaves all of it or
    nothing.
    """
    import optuna

    number = len(study.trials)
    seed = integer_seed(search.sampler_seed, f"trial-{number}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # Optuna 4 warns about constant_liar
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)  # several trials run at once
    copy = optuna.create_study(sampler=sampler, direction=study.direction)
    copy.add_trials(study.trials)
    proposal = copy.ask(_distributions(search))
    study.add_trial(
        optuna.trial.create_trial(
            state=optuna.trial.TrialState.RUNNING, params=proposal.params, distributions=proposal.distributions
        )
    )
    return number, proposal.params


def _distributions(search: Search) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna import distributions

    found: dict[str, distributions.BaseDistribution] = {}
    for name, dimension in search.space.items():
        if not isinstance(dimension, Range):
            found[name] = distributions.CategoricalDistribution(dimension)
        elif dimension.whole:
            found[name] = distributions.IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
        else:
            found[name] = distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    return found


def _score(
    search: Search, folder: SweepFolder, work: Work, number: int, sweep: Sweep, values: Mapping[str, Any]
) -> Outcome | None:
    """Return a trial's mean score over seeds, or None while runs are unfinished."""
    failed = {trial.name: message for trial, message in work.failed.items()}
    done = {trial.name for trial in work.done}
    names = [trial.name for trial in sweep.trials]
    for name in names:
        if name in failed:
            return Outcome(number, values, None, failed[name])
    if not done.issuperset(names):
        return None
    scores = [getattr(read_result(folder.run(trial), trial.group), search.objective) for trial in sweep.trials]
    if any(map(math.isnan, scores)):
        return Outcome(number, values, None, f"it has no {search.objective} score: did any episode end?")
    return Outcome(number, values, fmean(scores))


def _record_outcome(study: optuna.Study, outcome: Outcome) -> None:
    import optuna

    if outcome.score is None:
        study.tell(outcome.number, state=optuna.trial.TrialState.FAIL)
    else:
        study.tell(outcome.number, outcome.score)


def outcomes(study: optuna.Study) -> Sequence[Outcome]:
    """Return all finished trials, best first, failed ones last."""
    found = [
        Outcome(trial.number, trial.params, trial.value if trial.state.name == "COMPLETE" else None)
        for trial in study.trials
        if trial.state.is_finished()
    ]
    return sorted(found, key=lambda outcome: -math.inf if outcome.score is None else outcome.score, reverse=True)
