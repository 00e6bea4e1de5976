"""A search carried out: Optuna proposes settings, a sweep runs them, and their mean score over seeds is the answer.

OUT/study.jsonl         what Optuna has proposed, and what came of it
OUT/trials.csv, ...     every run, as in a sweep's directory

A trial that was begun and never judged, since the search was killed, is gone on with: its runs know how.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bdqn.config.extras import missing
from bdqn.config.seeding import integer_seed
from bdqn.config.settings import SettingError
from bdqn.report.compare import read_result
from bdqn.storage import atomic, safe_files
from bdqn.sweep.engine import Engine, Work, carry_out
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.plan import Sweep
from bdqn.tune.space import Range, Search

if TYPE_CHECKING:
    import optuna

FILE = "study.jsonl"
NAME = "search"


@dataclass(frozen=True)
class Outcome:
    """What came of a trial."""

    number: int
    values: Mapping[str, Any]
    score: float | None  # None: it failed
    message: str = ""


def require_optuna() -> None:
    """Optuna, or an error that says which extra brings it."""
    try:
        import optuna
    except ImportError as error:
        raise SettingError(missing("--search", "tune", error)) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def open_study(search: Search, folder: Path) -> optuna.Study:
    """The study in this directory, or a new one; a study of something else is refused."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    path = folder.resolve() / FILE
    _take_back_half_a_line(path)
    # Optuna's own lock, left by a kill: the directory is locked already, so nobody else can hold it.
    path.with_name(f"{FILE}.lock").unlink(missing_ok=True)
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage, study_name=NAME, direction="maximize", load_if_exists=True)
    known = study.user_attrs.get("search", search.fingerprint)
    if known != search.fingerprint:
        raise SettingError(
            f"{folder} holds another search: only trials may change from one to the next. Choose another directory."
        )
    study.set_user_attr("search", search.fingerprint)
    return study


def _take_back_half_a_line(path: Path) -> None:
    """A line that a kill has cut short would spoil all that follows it."""
    with suppress(FileNotFoundError):
        data = safe_files.read(path, safe_files.STUDY)
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            atomic.write_file(path, whole)


def carry_out_search(
    search: Search,
    study: optuna.Study,
    folder: SweepFolder,
    engine: Engine,
    workers: int,
    retries: int,
    watching: Callable[[Sweep], AbstractContextManager[Callable[[Work], None]]],
    stop: Callable[[], bool],
) -> Iterator[Outcome]:
    """Try settings until the study has all of its trials, or ``stop()`` holds; gives each outcome as it is known.

    As many trials are under way at a time as keep all workers busy.
    """
    while not stop():
        begun = dict(_under_way(search, study, workers))
        if not begun:
            return
        runs = {trial.name: trial for sweep in begun.values() for trial in sweep.trials}  # two trials may be the same
        batch = Sweep(search.content["steps"], tuple(runs.values()))
        folder.prepare(batch)
        with watching(batch) as watch:
            work = carry_out(batch, folder, engine, workers, retries, watch, stop)
        for number, sweep in begun.items():
            values = study.trials[number].params
            outcome = _judge(search, folder, work, number, sweep, values)
            if outcome is not None:
                _tell(study, outcome)
                yield outcome


def _under_way(search: Search, study: optuna.Study, workers: int) -> Iterator[tuple[int, Sweep]]:
    """Trials to be run now: those that were begun and not judged; new ones only where there are none of those.

    So a proposal never depends on where an earlier batch was interrupted.
    """
    import optuna

    begun = []
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        if trial.params.keys() == search.space.keys():
            begun.append((trial.number, search.sweep(trial.number, trial.params)))
        else:  # of an earlier version, which wrote proposals one value at a time, and was killed between two
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    if begun:
        yield from begun
        return
    seeds = len(search.sweep(0, {}).trials)
    while len(begun) < max(1, workers // seeds) and len(study.trials) < search.trials:
        number, values = _ask(search, study)
        begun.append((number, search.sweep(number, values)))
    yield from begun


def _ask(search: Search, study: optuna.Study) -> tuple[int, dict[str, Any]]:
    """A new proposal. Its seed follows from its number: a search that was interrupted proposes what it would have.

    It is made on a copy in memory, and enters the study as one line: a kill leaves all of it or nothing.
    """
    import optuna

    number = len(study.trials)
    seed = integer_seed(search.sampler_seed, f"trial-{number}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # Optuna 4's, of the liar
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)  # several are under way
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


def _judge(
    search: Search, folder: SweepFolder, work: Work, number: int, sweep: Sweep, values: Mapping[str, Any]
) -> Outcome | None:
    """A trial's mean score over seeds; None while runs of it are missing."""
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
        return Outcome(number, values, None, f"no {search.objective} is known: did an episode end?")
    return Outcome(number, values, fmean(scores))


def _tell(study: optuna.Study, outcome: Outcome) -> None:
    import optuna

    if outcome.score is None:
        study.tell(outcome.number, state=optuna.trial.TrialState.FAIL)
    else:
        study.tell(outcome.number, outcome.score)


def outcomes(study: optuna.Study) -> Sequence[Outcome]:
    """Everything that has been judged, the best first, failures last."""
    found = [
        Outcome(trial.number, trial.params, trial.value if trial.state.name == "COMPLETE" else None)
        for trial in study.trials
        if trial.state.is_finished()
    ]
    return sorted(found, key=lambda outcome: -math.inf if outcome.score is None else outcome.score, reverse=True)
