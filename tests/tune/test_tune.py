"""Tuning: features stay as they are, the best is chosen, and a search ends with exactly the trials it should have."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.cli import main
from bdqn.config.settings import SettingError
from bdqn.envs.supervision import time_limit
from bdqn.replay.buffer import Replay
from bdqn.runs.exit_codes import DISK_FULL
from bdqn.storage.safe_files import DamagedFile
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.plan import Sweep, Trial
from bdqn.tune import frozen
from bdqn.tune.frozen import Donor, Stage, Tried, as_settings, candidates, load_donor, paper_grid, play
from bdqn.tune.space import Range, Search, read_search
from bdqn.tune.study import Outcome, open_study, outcomes, run_search

SMALL = {"learning_starts": 100, "features": 16, "buffer_size": 2_000}
VALUES = {
    "posterior_batch_size": 200,
    "prior_var": 1.0,
    "noise_var": 1.0,
    "posterior_update_interval": 20,
    "sample_interval": 5,
}


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ddqn with its replay memory."""
    folder = tmp_path_factory.mktemp("tune") / "ddqn"
    command = f"train --env CartPole-v1 --agent ddqn --steps 600 --out {folder} --quiet --num-envs 2"
    words = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert main([*command.split(), *words]) == 0
    return folder


@pytest.fixture(scope="module")
def donor(run: Path) -> Iterator[Donor]:
    donor = load_donor(run)
    yield donor
    donor.learner.envs.close()


def test_an_episode_that_nothing_ends_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bdqn.runs.evaluation.MAX_STEPS", 30)
    command = f"train --env CliffWalking-v1 --agent ddqn --steps 150 --out {tmp_path / 'run'} --quiet"
    words = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert main([*command.split(), *words]) == 0
    donor = load_donor(tmp_path / "run")
    with time_limit(20):  # else it would not fail, but never end
        endless = [play(donor, VALUES, 2), play(donor, VALUES, 2, max_steps=20)]
    donor.learner.envs.close()
    assert [(tried.cut, tried.decisions) for tried in endless] == [(2, 60), (2, 40)]


# --- features that stay as they are ---------------------------------------------------------------------------


def test_nothing_but_the_last_layer_changes(donor: Donor, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    begin = frozen._bayesian

    def noted(*arguments: Any) -> bdqn.Learner:
        made.append(begin(*arguments))
        assert (made[-1].agent.online.head.weights[:, :-1] == donor.learner.agent.online.head.last.weight).all()
        return made[-1]

    monkeypatch.setattr(frozen, "_bayesian", noted)
    tried = play(donor, VALUES, episodes=8)
    agent = made[0].agent
    theirs = donor.learner.agent.online.state_dict()
    before = {name: value.clone() for name, value in theirs.items()}
    for network in (agent.online, agent.target):
        state = network.state_dict()
        kept = [name for name in state if name != frozen.LAST]
        assert any(name.startswith("head.dense") for name in kept)
        assert all(torch.equal(state[name], before[name]) for name in kept)
        assert not torch.equal(state[frozen.LAST][:, :-1], before["head.last.weight"])  # the regression's
    assert agent.updates == 0
    assert tried.decisions > 2 * VALUES["posterior_update_interval"]  # it was refitted on the way
    assert len(agent.replay) == 600 + tried.decisions


def test_before_the_first_fit_q_is_the_trained_agents(donor: Donor) -> None:
    learner = frozen._bayesian(donor, as_settings(VALUES), 0)
    obs = np.array([[0.1, 0.2, -0.1, 0.3]], np.float32)
    assert np.allclose(learner.q_values(obs), donor.learner.q_values(obs), atol=1e-5)
    learner.envs.close()


def test_a_donor_is_left_as_it_was(run: Path, donor: Donor) -> None:
    files = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    before = donor.learner.agent.state()["generators"]
    held = len(donor.learner.agent.replay)
    play(donor, VALUES, episodes=2)
    load_donor(run).learner.envs.close()
    assert donor.learner.agent.state()["generators"] == before
    assert len(donor.learner.agent.replay) == held == 600
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == files


def test_the_seed_decides_what_is_played(donor: Donor) -> None:
    first, again, other = (play(donor, VALUES, episodes=4, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first.returns != other.returns


def test_without_noise_the_draw_acts_as_the_mean(donor: Donor) -> None:
    narrow = play(donor, {**VALUES, "prior_var": 1e-9, "noise_var": 1e-12}, episodes=4)
    wide = play(donor, {**VALUES, "prior_var": 1e3, "noise_var": 1e3}, episodes=4)
    assert narrow.differs == 0
    assert wide.differs > 0.2


@pytest.mark.parametrize("stack", [0, 3])
def test_a_memory_of_several_environments_is_copied_whole(stack: int) -> None:
    """Every transition that could be sampled, and no other; also from rings that have begun to forget."""
    rng = np.random.default_rng(0)
    shape = (3, 2) if stack else (2,)
    source = Replay(60, shape, np.float32, num_envs=2, stack=stack)
    obs = rng.random((2, *shape)).astype(np.float32)
    source.start(obs)
    for _ in range(70):
        ended = rng.random(2) < 0.1
        following = np.concatenate([obs[:, 1:], rng.random((2, 1, 2))], 1) if stack else rng.random((2, 2))
        fresh = rng.random((2, 1, 2)).repeat(3, 1) if stack else rng.random((2, 2))
        now = np.where(ended.reshape(2, *[1] * len(shape)), fresh, following).astype(np.float32)
        next_obs = following.astype(np.float32)
        source.add(rng.integers(3, size=2), rng.random(2), next_obs, ended, ended, now)
        obs = now
    copy = Replay(200, shape, np.float32, stack=stack)
    copy.start(np.zeros((1, *shape), np.float32))
    frozen.copy_replay(source, copy)
    copy.start(np.zeros((1, *shape), np.float32))
    one, other = (replay.gather(*replay.index()) for replay in (source, copy))
    orders = [np.argsort(batch.reward) for batch in (one, other)]  # no two rewards are the same
    assert len(one.action) > 40
    for name in ("obs", "action", "reward", "next_obs", "terminal"):
        theirs, ours = (getattr(batch, name)[order] for batch, order in zip((one, other), orders, strict=True))
        assert np.array_equal(theirs, ours), name


def test_a_saved_agent_plays_for_its_memory(run: Path, tmp_path: Path) -> None:
    bdqn.load(run).save(tmp_path / "agent")
    first, again = (load_donor(tmp_path / "agent", collect=250) for _ in range(2))
    assert first.played == len(first.learner.agent.replay) == 250
    assert np.array_equal(first.learner.agent.replay.actions, again.learner.agent.replay.actions)
    assert first.learner.agent.updates == bdqn.load(run).agent.updates  # it learned nothing from that
    for donor in (first, again):
        donor.learner.envs.close()


@pytest.mark.parametrize("agent", ["dropout", "bbq", "bdqn", "ls-dqn"])
def test_agents_with_the_same_layers_will_do(agent: str, tmp_path: Path) -> None:
    bdqn.make(agent, "CartPole-v1", **SMALL).learn(150).save(tmp_path / "agent")
    donor = load_donor(tmp_path / "agent", collect=150)
    assert len(play(donor, VALUES, episodes=2).returns) == 2
    donor.learner.envs.close()


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("bootstrapped", "bootstrapped has more in its network"),
        ("bdqn-deep", "bdqn-deep has more in its network"),
        ("random", "learns no features"),
    ],
)
def test_agents_with_other_layers_are_refused(agent: str, message: str, tmp_path: Path) -> None:
    bdqn.make(agent, "CartPole-v1", **SMALL).save(tmp_path / "agent")
    with pytest.raises(SettingError, match=message):
        load_donor(tmp_path / "agent", collect=50)


# --- what is tried, and what is chosen -------------------------------------------------------------------------


def test_the_papers_grid() -> None:
    grid = paper_grid(10_000)
    assert sorted(grid["posterior_batch_size"]) == [10_000, 100_000]
    assert sorted(grid["prior_var"]) == [0.001, 0.1, 1.0]
    assert sorted(grid["noise_var"]) == [1.0, 10.0]
    assert sorted(grid["posterior_update_interval"]) == [10_000, 100_000]
    assert sorted(grid["sample_interval"]) == [100, 1_000]


def test_candidates_are_what_is_given_else_the_papers_after_the_presets(donor: Donor) -> None:
    first, second = frozen.STAGES
    assert len(candidates(donor, first, {})) == 1 + 2 * 3 * 2
    assert candidates(donor, first, {})[0] == {"posterior_batch_size": 30_000, "prior_var": 0.3, "noise_var": 3.0}
    assert candidates(donor, second, {})[0] == {"posterior_update_interval": 500, "sample_interval": "episode"}
    given = candidates(donor, first, {"prior_var": [5.0], "noise_var": [1.0, 2.0, 1.0]})
    assert {values["prior_var"] for values in given} == {5.0}
    assert len(given) == 2 * 1 * 2  # none twice
    assert len(candidates(donor, second, {"prior_var": [5.0]})) == 1 + 4


def test_words_stand_for_settings_of_their_own() -> None:
    assert as_settings({"noise_var": 2.0, "sample_interval": 7}) == {
        "noise": "fixed",
        "noise_var": 2.0,
        "redraw": "steps",
        "sample_interval": 7,
    }
    words = as_settings({"noise_var": "learned", "sample_interval": "episode"})
    assert words == {"noise": "inverse-gamma", "redraw": "episode"}


def test_the_best_has_the_highest_mean_and_of_equals_is_the_first() -> None:
    tried = [Tried({"prior_var": v}, returns, 1, 0.0, 0) for v, returns in ((1, (1, 3)), (2, (2, 4)), (3, (3, 3)))]
    assert Stage(("prior_var",), tuple(tried)).best.values == {"prior_var": 2}
    assert tried[0].standard_error == 1.0
    assert np.isnan(Tried({}, (1.0,), 1, 0.0, 0).standard_error)


def test_the_second_stage_begins_with_the_best_of_the_first(donor: Donor) -> None:
    given = {
        "posterior_batch_size": [300],
        "prior_var": [1e-9, 1.0],
        "noise_var": [1.0],
        "posterior_update_interval": [50],
        "sample_interval": ["episode", 3],
    }
    one, two = frozen.search(donor, given, episodes=3)
    assert [len(one.tried), len(two.tried)] == [2, 2]
    assert one.best.mean == max(tried.mean for tried in one.tried)
    assert all(tried.values.items() >= one.best.values.items() for tried in two.tried)
    assert set(two.best.values) == set(given)


# --- a search over any setting ---------------------------------------------------------------------------------

FILE = """
steps = 300
seeds = 1
environments = ["CartPole-v1"]
trials = 4

[training]
learning_starts = 100
features = 16
buffer_size = 2_000

[schedule]
eval_freq = 150
eval_episodes = 2

[agents.bdqn]

[search]
prior_var = { low = 1e-3, high = 10.0, log = true }
posterior_batch_size = { low = 100, high = 1_000 }
redraw = ["episode", "steps"]
"""


class Finished:
    """A run that has ended."""

    def __init__(self, code: int) -> None:
        self.code = code

    def poll(self) -> int:
        return self.code

    def stop(self) -> None: ...

    def wait(self, seconds: float) -> bool:
        return True

    def kill(self) -> None: ...


class Here:
    """An engine that runs trials in this process; it can be killed before one of them, or have one fail."""

    def __init__(self, killed_at: int | None = None, fails_at: int | None = None) -> None:
        self.killed_at, self.fails_at, self.begun = killed_at, fails_at, 0

    def start(self, trial: Trial, folder: SweepFolder) -> Finished:
        self.begun += 1
        if self.begun - 1 == self.killed_at:
            raise KeyboardInterrupt
        if self.begun - 1 == self.fails_at:
            return Finished(1)
        return Finished(main(trial.command(folder.run(trial))))


def silent(sweep: Sweep) -> AbstractContextManager[Callable[..., None]]:
    return nullcontext(lambda work: None)


def run_sweep(search: Search, out: Path, engine: Here, workers: int = 1) -> list[Outcome]:
    """Everything that came of it this time."""
    out.mkdir(exist_ok=True)
    folder = SweepFolder(out)
    folder.prepare(Sweep(()))
    study = open_study(search, out)
    return list(run_search(search, study, folder, engine, workers, 0, silent, lambda: False))


def search_of(folder: Path, text: str = FILE) -> Search:
    (folder / "search.toml").write_text(text)
    return read_search(folder / "search.toml")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    folder = tmp_path_factory.mktemp("search")
    return run_sweep(search_of(folder), folder / "out", Here())


def test_a_search_tries_what_its_file_says(undisturbed: list[Outcome]) -> None:
    assert [outcome.number for outcome in undisturbed] == [0, 1, 2, 3]
    for outcome in undisturbed:
        assert 1e-3 <= outcome.values["prior_var"] <= 10
        assert type(outcome.values["posterior_batch_size"]) is int
        assert outcome.values["redraw"] in ("episode", "steps")
        assert outcome.score is not None
    assert len({outcome.values["prior_var"] for outcome in undisturbed}) == 4


def test_a_search_can_be_extended_and_is_then_the_same(tmp_path: Path, undisturbed: list[Outcome]) -> None:
    shorter = search_of(tmp_path, FILE.replace("trials = 4", "trials = 2"))
    search, out = search_of(tmp_path), tmp_path / "out"
    engines = [Here(), Here(), Here()]
    first, second, third = (run_sweep(s, out, e) for s, e in zip((shorter, search, search), engines, strict=True))
    assert first + second == undisturbed
    assert third == []
    assert [engine.begun for engine in engines] == [2, 2, 0]
    assert len(open_study(search, out).trials) == 4


def test_a_killed_search_goes_on_with_what_was_begun(tmp_path: Path, undisturbed: list[Outcome]) -> None:
    search, out = search_of(tmp_path), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run_sweep(search, out, Here(killed_at=1))
    study = out / "study.jsonl"
    study.write_bytes(study.read_bytes() + b'{"op_code":')  # it was killed in the middle of a line, too
    assert [trial.state.name for trial in open_study(search, out).trials] == ["COMPLETE", "RUNNING"]
    run_sweep(search, out, Here())
    found = outcomes(open_study(search, out))
    assert sorted(found, key=lambda outcome: outcome.number) == undisturbed
    assert found[0].score == max(outcome.score or 0.0 for outcome in undisturbed)


def test_a_search_that_is_killed_between_any_two_lines_of_its_study_proposes_the_same(
    tmp_path: Path, undisturbed: list[Outcome]
) -> None:
    """Also while it proposes: what has been written of a proposal is all of it."""
    search, out = search_of(tmp_path), tmp_path / "out"
    run_sweep(search, out, Here())
    study = out / "study.jsonl"
    lines = study.read_bytes().splitlines(keepends=True)
    for count in range(len(lines)):
        study.write_bytes(b"".join(lines[:count]))
        run_sweep(search, out, Here())  # its runs are all there
        found = sorted(outcomes(open_study(search, out)), key=lambda outcome: outcome.number)
        assert found == undisturbed, f"killed after line {count}"


def test_a_lock_that_a_killed_search_left_does_not_stop_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "study.jsonl.lock").symlink_to("out/study.jsonl")
    with time_limit(20):  # else it would not fail, but wait for ever
        open_study(search_of(tmp_path), Path("out"))


def test_a_trial_that_fails_counts_and_is_not_the_best(tmp_path: Path) -> None:
    search, out = search_of(tmp_path, FILE.replace("trials = 4", "trials = 2")), tmp_path / "out"
    found = run_sweep(search, out, Here(fails_at=0))
    assert [outcome.score is None for outcome in found] == [True, False]
    assert "exit code 1" in found[0].message
    assert [outcome.number for outcome in outcomes(open_study(search, out))] == [1, 0]


def test_the_score_is_the_mean_over_seeds_of_the_objective(tmp_path: Path) -> None:
    text = FILE.replace("seeds = 1", 'seeds = 2\nobjective = "evaluation"').replace("trials = 4", "trials = 1")
    search, out = search_of(tmp_path, text), tmp_path / "out"
    (found,) = run_sweep(search, out, Here(), workers=2)
    last = [float(p.read_text().splitlines()[-1].split(",")[1]) for p in out.glob("trials/*/evaluations.csv")]
    assert len(last) == 2
    assert found.score == pytest.approx(sum(last) / 2)


def test_workers_are_kept_busy_by_several_trials(tmp_path: Path) -> None:
    search = search_of(tmp_path, FILE.replace("trials = 4", "trials = 3"))
    with pytest.raises(KeyboardInterrupt):
        run_sweep(search, tmp_path / "out", Here(killed_at=1), workers=2)
    assert len(open_study(search, tmp_path / "out").trials) == 2


@pytest.mark.parametrize("when", ["a proposal", "its list of runs", "a score"])
def test_a_disk_that_fills_up_during_a_search_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], when: str
) -> None:
    command = ["tune", "--search", str(tmp_path / "search.toml"), "--out", str(tmp_path / "out"), "--workers", "1"]
    search_of(tmp_path, FILE.replace("trials = 4", "trials = 1"))
    place = {"a proposal": "_ask", "its list of runs": "SweepFolder.prepare", "a score": "_record_outcome"}[when]
    name = f"bdqn.tune.study.{place}"

    def full(*arguments: Any) -> None:
        if when != "its list of runs" or arguments[1].trials:
            raise OSError(errno.ENOSPC, "No space left on device")
        prepare(*arguments)

    prepare = SweepFolder.prepare
    with monkeypatch.context() as patch:
        patch.setattr(name, full)
        patch.setattr("bdqn.sweep.local.Local", Here)
        assert main(command) == DISK_FULL
        assert capsys.readouterr().err.endswith("No space left on device): free some space and try again.\n")
    monkeypatch.setattr("bdqn.sweep.local.Local", Here)
    assert main(command) == 0


DAMAGE: dict[str, Callable[[str], str]] = {
    "nested too deeply": lambda text: "[" * 100_000 + "]" * 100_000 + "\n",
    "no op_code": lambda text: text.replace("op_code", "opcode"),
    "an unknown op_code": lambda text: text.replace('"op_code":4', '"op_code":77'),
    "an op_code of 400 digits": lambda text: text.replace('"op_code":4', f'"op_code":{"9" * 400}'),
    "a list": lambda text: f"[]\n{text}",
    "a score of 400 digits": lambda text: re.sub(r'"values":\[[0-9.]+', f'"values":[{"9" * 400}', text),
    "a score that is text": lambda text: re.sub(r'"values":\[[0-9.]+', '"values":["\\\\u001b[31mtext"', text),
    "a score that is not a number": lambda text: re.sub(r'"values":\[[0-9.]+', '"values":[Infinity', text),
    "no settings": lambda text: re.sub(r'"params":\{[^}]*\}', '"params":{}', text),
    "neither settings nor ranges": lambda text: re.sub(
        r'"distributions":\{.*?\},"params":\{[^}]*\}', '"distributions":{},"params":{}', text
    ),
    "a setting that is text": lambda text: re.sub(r'"prior_var":[0-9.e-]+', '"prior_var":"text"', text),
    "a setting beyond its range": lambda text: re.sub(r'"prior_var":[0-9.e-]+', '"prior_var":1e9', text),
    "an unknown state": lambda text: text.replace('"state":1', '"state":99'),
    "a state that no trial has": lambda text: text.replace('"state":1', '"state":4'),
    "two directions": lambda text: text.replace('"directions":[2]', '"directions":[2,2]'),
    "another study": lambda text: text.replace('"study_name":"search"', '"study_name":"other"'),
    "a last line that is no JSON": lambda text: text + "{\n",
    "a first line that is cut": lambda text: text[50:],
    "not UTF-8": lambda text: text.replace("prior", "\udcff"),
}


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search with one finished trial. It is everyone's: copy it before changing it."""
    folder = tmp_path_factory.mktemp("searched")
    run_sweep(search_of(folder, FILE.replace("trials = 4", "trials = 1")), folder / "out", Here())
    return folder


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_study_that_is_damaged_is_named_and_proposed_again_without_it(
    searched: Path, tmp_path: Path, damage: str
) -> None:
    folder = shutil.copytree(searched, tmp_path / "copy")
    search, study = read_search(folder / "search.toml"), folder / "out" / "study.jsonl"
    (before,) = outcomes(open_study(search, folder / "out"))
    text = study.read_text()
    assert DAMAGE[damage](text) != text
    study.write_text(DAMAGE[damage](text), errors="surrogateescape")
    with pytest.raises(DamagedFile) as caught:
        open_study(search, folder / "out")
    message = str(caught.value)
    assert message.startswith(f"{study} is damaged")
    assert message.endswith(
        "move it away and run the same command: it repeats the search with the runs that are there."
    )
    assert len(message) < 700
    study.unlink()
    engine = Here()
    assert run_sweep(search, folder / "out", engine) == [before]
    assert engine.begun == 0


def test_a_directory_in_place_of_the_result_is_named(
    searched: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(searched, tmp_path / "copy") / "out"
    (out / "best.toml").mkdir()
    assert main(["tune", "--search", str(out.parent / "search.toml"), "--out", str(out)]) == 2
    problem = f"bdqn: {out / 'best.toml'} is a directory, but a file must be written there: move it away.\n"
    assert capsys.readouterr().err == problem
    assert list(out.glob(".tmp-*")) == []


def test_another_search_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    open_study(search_of(tmp_path), tmp_path)
    open_study(search_of(tmp_path, FILE.replace("trials = 4", "trials = 9")), tmp_path)
    with pytest.raises(SettingError, match="holds another search"):
        open_study(search_of(tmp_path, FILE.replace("high = 10.0", "high = 20.0")), tmp_path)


def test_what_a_proposal_leaves_unread_is_no_part_of_its_runs(tmp_path: Path) -> None:
    """A number and its switch can be searched together, in any order of the switch's values."""
    file = tmp_path / "search.toml"
    file.write_text(FILE.replace("[search]", "[search]\nsample_interval = { low = 1, high = 100 }"))
    search = read_search(file)
    drawn = {"prior_var": 1.0, "posterior_batch_size": 100, "sample_interval": 7}
    by_episode, by_steps = (search.sweep(0, {**drawn, "redraw": redraw}).trials[0] for redraw in ("episode", "steps"))
    assert "sample_interval" not in by_episode.settings
    assert by_steps.settings["sample_interval"] == 7


def test_a_file_is_read_as_ranges_and_choices(tmp_path: Path) -> None:
    search = search_of(tmp_path)
    assert search.space == {
        "prior_var": Range(1e-3, 10.0, log=True, whole=False),
        "posterior_batch_size": Range(100, 1_000, log=False, whole=True),
        "redraw": ("episode", "steps"),
    }
    assert (search.trials, search.objective, search.group) == (4, "area", "bdqn")
    (trial,) = search.sweep(3, {"prior_var": 0.5}).trials
    assert (trial.group, trial.settings["prior_var"], trial.settings["features"]) == ("bdqn 3", 0.5, 16)


WRONG = {
    "unknown key": (FILE.replace("trials", "trails"), "unknown key 'trails'; did you mean trials"),
    "unknown setting": (
        FILE.replace("prior_var", "prior_vra"),
        "search: bdqn has no setting 'prior_vra'; did you mean prior_var",
    ),
    "unknown objective": ('objective = "aera"\n' + FILE, "unknown objective 'aera'; did you mean area"),
    "unknown agent": (FILE.replace("agents.bdqn", "agents.bdnq"), "Unknown agent 'bdnq'; did you mean bdqn"),
    "unknown key of a range": (
        FILE.replace("high = 10.0", "hihg = 10.0"),
        "prior_var: a range has no key 'hihg'; did you mean high",
    ),
    "no end": (FILE.replace("low = 100, ", ""), "posterior_batch_size: a range needs both low and high"),
    "ends the wrong way round": (FILE.replace("high = 10.0", "high = 1e-4"), "prior_var: low must be less than high"),
    "log of zero": (
        FILE.replace("[search]", "[search]\ntemperature = { low = 0.0, high = 1.0, log = true }"),
        "temperature: low must be less than high, and positive with log",
    ),
    "log in words": (FILE.replace("log = true", 'log = "yes"'), "prior_var: log must be true or false, not 'yes'"),
    "an end that is too small": (
        FILE.replace("low = 1e-3", "low = -1.0"),
        "prior_var: prior_var must be at least 1e-12",
    ),
    "a fraction of a transition": (
        FILE.replace("high = 1_000", "high = 999.5"),
        "posterior_batch_size must be int, not 999.5",
    ),
    "a range of words": (
        FILE.replace('["episode", "steps"]', "{ low = 1, high = 2 }"),
        "search: redraw: only numbers can have a range: give a list of choices",
    ),
    "a choice that does not exist": (
        FILE.replace('"steps"]', '"stpes"]'),
        "redraw must be one of episode, steps, not 'stpes'",
    ),
    "a single choice": (FILE.replace(', "steps"]', "]"), "redraw: choices must be two or more different values"),
    "neither range nor choices": (
        FILE.replace('["episode", "steps"]', '"steps"'),
        "search: redraw must be a list of choices",
    ),
    "searched and given": (
        FILE.replace("[agents.bdqn]", "[agents.bdqn]\nprior_var = 1.0"),
        "search: prior_var is also set to 1.0",
    ),
    "two agents": (FILE.replace("[agents.bdqn]", "[agents.bdqn]\n[agents.ddqn]"), "one agent and one environment"),
    "a grid": (FILE.replace("[agents.bdqn]", "[agents.bdqn]\nnoise_var = [1.0, 2.0]"), "one agent and one environment"),
    "two environments": (FILE.replace('"CartPole-v1"', '"CartPole-v1", "Acrobot-v1"'), "one agent and one environment"),
    "no trials": (FILE.replace("trials = 4", ""), "trials must be given and at least 1"),
    "trials in words": (FILE.replace("trials = 4", "trials = true"), "trials cannot be True"),
    "nothing to search": (FILE.split("[search]")[0], "search must be given and not empty"),
    "no evaluations": (
        'objective = "evaluation"\n' + FILE.replace("eval_freq = 150", "eval_freq = 0"),
        "objective evaluation needs eval_freq in schedule",
    ),
    "a sweep's own mistake": (
        FILE.replace("eval_freq", "evl_freq"),
        "schedule has no key 'evl_freq'; did you mean eval_freq",
    ),
    "no TOML": (FILE + "[search", "is not a valid TOML file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_file_is_refused_with_file_and_key_before_anything_starts(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message = WRONG[case]
    file = tmp_path / "search.toml"
    file.write_text(text)
    assert main(["tune", "--search", str(file), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert str(file) in error
    assert message in error
    assert not (tmp_path / "out").exists()
