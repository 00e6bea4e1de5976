"""``bdqn watch``: an episode is recorded as it was played, and its page can be scrubbed in a real browser."""

from __future__ import annotations

import io
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib.image
import numpy as np
import pytest
import torch
from gymnasium import spaces

import bdqn
from bdqn.cli import main
from bdqn.envs.vector import TERMINAL_FOR_LEARNER
from bdqn.report.watch import png, watch_page
from bdqn.runs.outcomes import returns_from
from bdqn.runs.playback import compact, grid_picture, record, scaled, shown
from support.browser import Browser
from support.pages import EVIL, recording

SMALL = {"learning_starts": 50, "features": 8, "buffer_size": 500, "posterior_update_interval": 50}


@pytest.fixture(scope="module")
def learner() -> bdqn.Learner:
    return bdqn.make("bdqn", "bdqn/DeepSea-v0", env_kwargs={"size": 4}, **SMALL).learn(120)


def test_a_recording_says_what_happened(learner: bdqn.Learner) -> None:
    made = record(learner, episodes=3, max_steps=100)
    assert len(made.action) == 12, "three dives of four decisions"
    np.testing.assert_array_equal(np.flatnonzero(made.ended), [3, 7, 11])
    np.testing.assert_array_equal(np.flatnonzero(made.redrawn), [0, 4, 8])  # redraw = "episode"
    np.testing.assert_array_equal(made.action, made.draw.argmax(1))  # Thompson sampling
    assert made.std is not None
    assert made.best is not None
    np.testing.assert_allclose(made.best.sum(1), 1)
    first = learner.q_posterior(np.eye(4, dtype=np.float32)[[0, 0, 0, 0]] * np.eye(4)[:, :1])
    np.testing.assert_allclose(made.mean[0], first.mean, rtol=1e-5)
    np.testing.assert_allclose(made.std[0], first.std, rtol=1e-5)
    assert made.pictures[0].shape == (4, 4, 3)


def test_a_draw_that_goes_by_steps_outlasts_the_episode() -> None:
    settings = {**SMALL, "redraw": "steps", "sample_interval": 6, "env_kwargs": {"size": 4}}
    made = record(bdqn.make("bdqn", "bdqn/DeepSea-v0", **settings).learn(60), episodes=4)
    np.testing.assert_array_equal(np.flatnonzero(made.ended), [3, 7, 11, 15])
    np.testing.assert_array_equal(np.flatnonzero(made.redrawn), [0, 6, 12])


def test_the_kind_of_draw_that_acts_is_shown(tmp_path: Path, browser: Browser) -> None:
    """Modest and bold draws act as in training, by their records there; and playing leaves those alone."""
    learner = bdqn.make("bdqn-explore", "bdqn/RiverSwim-v0", seed=1, **SMALL, prior_features=16).learn(400)
    before = deepcopy(learner.agent.draws.boldness.state())
    made = record(learner, episodes=8, max_steps=1000)
    assert set(made.kind) == {"modest", "bold"}
    np.testing.assert_equal(learner.agent.draws.boldness.state(), before)
    page = tmp_path / "watch.html"
    page.write_text(watch_page(made), encoding="utf-8")
    browser.open(page)
    status = "document.querySelector('#status').textContent"
    assert browser.run(status).startswith(f"Decision 1 of 400, new {made.kind[0]} draw: ")
    browser.press("End")
    assert browser.run(status).startswith(f"Decision 400 of 400, {made.kind[-1]} draw: ")


def test_a_bold_draw_far_out_leaves_the_beliefs_apart(tmp_path: Path, browser: Browser) -> None:
    made, page = recording(), tmp_path / "watch.html"
    page.write_text(watch_page(replace(made, draw=made.mean + 1e6, kind=("bold",) * 6)), encoding="utf-8")
    browser.open(page)
    browser.press("End")
    means = browser.run("[...document.querySelectorAll('.mean-mark')].map(m => Number(m.getAttribute('x1')))")
    assert means[0] > means[1] + 20, "Q is 5 and -5"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_far_state_leaves_the_bells_of_the_others_wide(tmp_path: Path, browser: Browser, width: int) -> None:
    """And it keeps within the plot: its marks stand at the ends, its bells are cut off there."""
    made, page = recording(8), tmp_path / "watch.html"
    mean = np.tile([1.0, 2.0], (8, 1))
    mean[5] = [-900, 900]
    std = np.full((8, 2), 0.5)
    std[5] = 300
    page.write_text(watch_page(replace(made, mean=mean, draw=mean + 0.1, std=std)), encoding="utf-8")
    browser.open(page, width)
    axis = browser.run(
        "(({x, width}) => [x, x + width])(document.querySelector('#belief .axis').getBoundingClientRect())"
    )
    bells = browser.run("[...document.querySelectorAll('.bell')].map(bell => bell.getBoundingClientRect().width)")
    assert min(bells) > 0.7 * (axis[1] - axis[0]), "3 of the 4 units that are shown"
    browser.run("go(5)")
    marks = browser.run("[...document.querySelectorAll('.mean-mark')].map(mark => mark.getBoundingClientRect().x)")
    np.testing.assert_allclose(marks, axis, atol=2)
    seen = [browser.picture()]
    browser.run("document.querySelectorAll('.bell').forEach(bell => { bell.style.visibility = 'hidden' })")
    seen.append(browser.picture())
    one, two = (matplotlib.image.imread(io.BytesIO(picture)) for picture in seen)
    columns = np.flatnonzero((np.abs(one - two) > 0.05).any((0, 2)))
    assert columns.min() >= axis[0] - 1
    assert columns.max() <= axis[1] + 1


def test_playing_leaves_the_learner_as_it_was(learner: bdqn.Learner) -> None:
    one, two = (record(learner, max_steps=4, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.draw, two.draw)
    assert learner.num_timesteps == 120


def test_an_environment_that_can_be_seen_is_shown_by_its_own_pictures() -> None:
    learner = bdqn.make("ddqn", "MinAtar/Breakout-v1", learning_starts=50, features=8, buffer_size=500)
    made = record(learner, max_steps=3)
    assert made.actions == ("no-op", "left", "right")
    assert [picture.shape for picture in made.pictures] == [(10, 10, 3)] * 3
    assert "render_mode" not in learner.env_kwargs, "what it was made with stays as it was"


def test_only_episodes_that_came_to_their_end_have_an_outcome(learner: bdqn.Learner) -> None:
    assert np.isfinite(record(learner).outcome).all(), "a dive ends at the bottom"
    short = {"learning_starts": 50, "features": 8, "buffer_size": 500, "env_kwargs": {"max_episode_steps": 3}}
    made = record(bdqn.make("ddqn", "CartPole-v1", **short))
    assert made.ended.tolist() == [False, False, True]
    assert np.isnan(made.outcome).all(), "nobody knows how it would have gone on"


class TwoLives(gym.Env[np.ndarray, int]):
    """Every decision pays 3. The learner is told that nothing follows the second, the game goes on for two more."""

    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)

    def reset(self, **arguments: Any) -> tuple[np.ndarray, dict[str, Any]]:
        self.age = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.age += 1
        return np.zeros(1, np.float32), 3.0, self.age == 4, False, {TERMINAL_FOR_LEARNER: self.age == 2}


@pytest.mark.parametrize(("clip", "counted"), [(0.0, 3.0), (0.5, 1.0), (9.0, 3.0)])
def test_the_outcome_beside_q_is_of_what_the_learner_counts(clip: float, counted: float) -> None:
    settings = {"reward_clip": clip, "gamma": 0.5, "learning_starts": 50, "features": 8, "buffer_size": 500}
    learner = bdqn.make("ddqn", TwoLives, **settings)
    learner.agent.targets.reward_unit = 2.0  # what is clipped is counted in it
    made = record(learner)
    np.testing.assert_array_equal(made.reward, [3.0] * 4)
    np.testing.assert_allclose(made.outcome, [1.5 * counted, counted, 1.5 * counted, counted])
    assert "returns of complete episodes: 12" in made.facts["shown"], "the return is the environment's"
    assert ("Q" in made.facts) == (clip > 0)
    if clip:
        assert f"of rewards clipped to ±{2 * clip:g}," in watch_page(made)


def test_greedy_follows_the_mean(learner: bdqn.Learner) -> None:
    made = record(learner, max_steps=4, greedy=True)
    np.testing.assert_array_equal(made.action, made.mean.argmax(1))
    np.testing.assert_array_equal(made.draw, made.mean)
    assert not made.redrawn.any()


def test_an_agent_without_posterior_shows_q_values() -> None:
    made = record(bdqn.make("ddqn", "CartPole-v1", learning_starts=50, features=8, buffer_size=500), max_steps=5)
    assert (made.std, made.best, made.calibration) == (None, None, None)
    assert made.pictures or made.observations.shape == (5, 4)
    page = watch_page(made).split("<script>")[0]
    assert "P(best)" not in page
    assert "picks from" not in page


@pytest.mark.parametrize("agent", ["bootstrapped", "bdqn-deep"])
def test_a_belief_of_few_draws_is_shown_as_these_have_it(agent: str) -> None:
    """Spread and probability over members, or over the draws of the last refit: what acts is one of them."""
    few = {"members": 5} if agent == "bootstrapped" else {"backup_draws": 5, "posterior_update_interval": 50}
    small = {"learning_starts": 50, "features": 8, "buffer_size": 500, "n_steps": 1, "env_kwargs": {"size": 4}}
    learner = bdqn.make(agent, "bdqn/DeepSea-v0", **small, **few).learn(120)
    learner.agent.targets.reward_unit = 3.0
    made = record(learner, episodes=3)
    head = learner.agent.online.head
    start = learner.agent.features(np.eye(16, dtype=np.float32)[:1].reshape(1, 4, 4))
    draws = [head.forward(start, index[None]) for index in (torch.arange(5) if agent == "bootstrapped" else head.pool)]
    q = 3.0 * torch.cat(draws).detach().numpy()  # (draws, actions)
    assert made.std is not None
    assert made.best is not None
    np.testing.assert_allclose(made.std[0], q.std(0), rtol=1e-4)
    np.testing.assert_allclose(made.best[0], [(q.argmax(1) == action).mean() for action in (0, 1)])
    assert made.centre is not None
    np.testing.assert_allclose(made.centre[0], q.mean(0), rtol=1e-4)
    assert any(np.allclose(made.draw[0], one, rtol=1e-4) for one in q)
    assert (made.calibration is None) == (agent == "bootstrapped"), "members say nothing of noise"
    page = watch_page(made)
    assert "those of the 5 Q-functions that it picks from" in page
    assert "belief: wider means less certain" in page


def test_numbers_are_shown_in_units_of_their_largest() -> None:
    np.testing.assert_array_equal(scaled(np.array([[1.0, 0.0], [-4.0, 0.0]])), [[0.25, 0.0], [-1.0, 0.0]])


def test_outcomes_are_discounted_and_unknown_where_cut_short() -> None:
    ends, terminal = np.array([0, 1, 0, 1, 0], bool), np.array([0, 1, 0, 0, 0], bool)
    made = returns_from(np.array([1.0, 2.0, 4.0, 8.0, 16.0]), ends, terminal, gamma=0.5)
    np.testing.assert_array_equal(made, [2.0, 2.0, np.nan, np.nan, np.nan])


def test_returns_are_those_of_episodes() -> None:
    reward, ended = np.array([1.0, 2.0, -0.5, 4.0]), np.array([False, True, True, False])
    returns = "returns of complete episodes: 3, -0.5"
    assert shown(reward[:3], ended[:3]) == f"3 decisions; {returns}"
    assert shown(reward, ended) == f"4 decisions; {returns}; the last episode was cut short, at a return of 4"
    assert shown(reward[:1], ended[:1]) == "1 decisions; the last episode was cut short, at a return of 1"


def test_calibration_counts_the_outcomes_that_were_expected() -> None:
    # Chosen means 0, -1, 2, -3, outcomes 0, 1, 2, 3, predictive stds 1, 3, 3, 5: distances 0, 2/3, 0, 6/5.
    assert recording(4).calibration == {1.0: 0.75, 2.0: 1.0}
    assert replace(recording(4), outcome=np.full(4, np.nan)).calibration is None
    assert "68% and 95% of a Gaussian are not targets" in watch_page(recording(4))
    moved = replace(recording(4), centre=recording(4).mean + 3)  # distances 3, 1/3, 1, 3/5
    assert moved.calibration == {1.0: 0.75, 2.0: 0.75}


@pytest.mark.parametrize("colours", [2, 400])
def test_a_png_is_read_back_as_it_was(colours: int) -> None:
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 255, (colours, 3), dtype=np.uint8)[rng.integers(colours, size=(30, 20))]
    read = matplotlib.image.imread(io.BytesIO(png(picture)))[..., :3]
    np.testing.assert_array_equal(np.rint(255 * read), picture)


def test_pictures_are_as_small_as_what_they_show() -> None:
    cells = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    np.testing.assert_array_equal(compact(cells.repeat(8, 0).repeat(8, 1)), cells)
    wide = np.arange(3 * 700 * 3, dtype=np.uint8).reshape(3, 700, 3)
    assert compact(wide).shape[1] <= 320
    np.testing.assert_array_equal(compact(wide[:, :300]), wide[:, :300], "narrow ones are left alone")
    assert grid_picture(np.eye(3))[0, 0].tolist() == [255, 214, 92]


def test_a_thin_line_is_seen_in_a_picture_that_was_too_wide() -> None:
    picture = np.full((401, 600, 3), 255, np.uint8)
    picture[301] = 0
    picture[:, 77] = (0, 100, 200)
    small = compact(picture)
    assert small.shape == (201, 300, 3)
    assert small[150, 0].tolist() == [128] * 3, "half of it is black"
    assert small[0, 38].tolist() == [128, 178, 228]
    assert (small == 255).all(2).sum() == 200 * 299


def test_the_command_writes_a_page(learner: bdqn.Learner, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner.save(tmp_path / "agent")
    page = tmp_path / "deep" / "watch.html"
    assert main(["watch", str(tmp_path / "agent"), "--out", str(page), "--episodes", "2"]) == 0
    assert "8 decisions; returns of complete episodes: " in capsys.readouterr().out
    assert page.stat().st_size < 60_000
    assert main(["watch", str(tmp_path / "nothing")]) == 2


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("posterior", [True, False])
@pytest.mark.parametrize("pictures", [True, False])
def test_in_a_browser(tmp_path: Path, browser: Browser, width: int, posterior: bool, pictures: bool) -> None:
    page = tmp_path / "watch.html"
    page.write_text(watch_page(recording(posterior=posterior, pictures=pictures)), encoding="utf-8")
    browser.open(page, width)
    assert (browser.complaints, browser.requests) == ([], [])
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert EVIL in browser.run("document.querySelector('h1').textContent")

    def state() -> tuple[str, str, str]:
        shown = "document.querySelector('#picture')?.src ?? document.querySelector('#bars').innerHTML"
        belief = browser.run("document.querySelector('#belief').innerHTML")
        return browser.run("document.querySelector('#status').textContent"), browser.run(shown), belief

    first = state()
    assert first[0].startswith("Decision 1 of 6, new draw: left.")
    assert ("P(best)" in first[2]) == posterior
    before = browser.picture()
    browser.press("ArrowRight")
    second = state()
    assert second[0].startswith(f"Decision 2 of 6: {EVIL}, not the mean's best (left). Reward 1")
    assert all(a != b for a, b in zip(first, second, strict=True)), "text, picture and belief"
    assert browser.picture() != before
    means = browser.run("[...document.querySelectorAll('.mean-mark')].map(m => Number(m.getAttribute('x1')))")
    assert means[0] > means[1], "Q is 1 and -1"
    browser.press("End")
    assert state()[0].startswith("Decision 6 of 6")
    browser.press("ArrowRight")
    assert state()[0].startswith("Decision 6 of 6"), "it does not run off"
    browser.press("ArrowLeft")
    assert state()[0].startswith("Decision 5 of 6")
    browser.press("Home")
    assert state() == first
    scrub = "document.querySelector('#scrub')"
    browser.run(f"{scrub}.value = 3; {scrub}.dispatchEvent(new Event('input'))")
    assert state()[0].startswith("Decision 4 of 6")
    browser.run(f"{scrub}.focus()")
    browser.press("ArrowRight")
    assert state()[0].startswith("Decision 5 of 6"), "the slider does not act a second time"
    browser.press("ArrowLeft")
    assert browser.run("document.querySelector('#play').textContent") == "Play"
    browser.press(" ")
    assert browser.run("document.querySelector('#play').textContent") == "Pause"
    browser.run("new Promise(done => setTimeout(done, 400))")
    assert not state()[0].startswith("Decision 4 of 6"), "it plays"
    assert browser.complaints == []


@pytest.mark.parametrize(("width", "drawn"), [(160, "pixelated"), (300, "auto")])
def test_pixels_of_games_are_sharp_and_drawings_smooth(
    tmp_path: Path, browser: Browser, width: int, drawn: str
) -> None:
    page = tmp_path / "watch.html"
    pictures = [np.full((200, width, 3), 30 * i, np.uint8) for i in range(6)]
    page.write_text(watch_page(replace(recording(), pictures=pictures)), encoding="utf-8")
    browser.open(page)
    style = "getComputedStyle(document.querySelector('#picture'))"
    assert browser.run(f"{style}.imageRendering") == drawn
    card = "getComputedStyle(document.querySelector('.panel'))"
    assert browser.run(f"{style}.backgroundColor === {card}.backgroundColor"), "no specks at the corners"


def test_whether_it_explores_is_not_a_matter_of_rounding(tmp_path: Path, browser: Browser) -> None:
    page = tmp_path / "watch.html"
    page.write_text(watch_page(replace(recording(), mean=np.array([[1.0, 1.00001]] * 6))), encoding="utf-8")
    browser.open(page)
    status = "document.querySelector('#status').textContent"
    assert browser.run(status).startswith(f"Decision 1 of 6, new draw: left, not the mean's best ({EVIL}).")
    browser.press("ArrowRight")
    assert browser.run(status).startswith(f"Decision 2 of 6: {EVIL}. Reward 1")


def test_the_timeline_doubts_the_chosen_action(tmp_path: Path, browser: Browser) -> None:
    page = tmp_path / "watch.html"
    made = recording()
    page.write_text(watch_page(made), encoding="utf-8")
    browser.open(page)
    points = browser.run("document.querySelector('#timeline .line.c2').getAttribute('d').slice(1).split('L')")
    doubt = [(140 - float(point.split(",")[1])) / 120 for point in points]
    assert made.best is not None
    np.testing.assert_allclose(doubt, 1 - made.best[np.arange(6), made.action], atol=1e-3)


def test_a_bell_stands_over_the_draws_that_it_is_of(tmp_path: Path, browser: Browser) -> None:
    page = tmp_path / "watch.html"
    made = recording()
    page.write_text(watch_page(replace(made, centre=made.mean + 40, draw=made.mean + 40)), encoding="utf-8")
    browser.open(page)
    place = "m => Number(m.getAttribute('transform').match(/[(]([-0-9.]+)/)[1])"
    bells, draws = (browser.run(f"[...document.querySelectorAll('.{m}')].map({place})") for m in ("bell", "draw-mark"))
    means = browser.run("[...document.querySelectorAll('.mean-mark')].map(m => Number(m.getAttribute('x1')))")
    np.testing.assert_allclose(bells, draws)
    axis = browser.run(
        "(l => [l.getAttribute('x1'), l.getAttribute('x2')].map(Number))(document.querySelector('.axis'))"
    )
    assert all(axis[0] <= mean < bell - 50 for mean, bell in zip(means, bells, strict=True)), "both can be seen, apart"
    assert "mean, which the greedy policy follows" in browser.run("document.querySelector('.legend').textContent")


def test_a_phone_has_the_controls_in_reach_and_room_for_its_numbers(tmp_path: Path, browser: Browser) -> None:
    page, plain = tmp_path / "page.html", recording()
    page.write_text(watch_page(replace(plain, mean=plain.mean / 1e6 - 0.00418, draw=plain.draw / 1e6 - 0.00418)))
    browser.open(page, 390, 844)
    box = "document.querySelector('#play').getBoundingClientRect()"
    assert 0 < browser.run(f"{box}.top") < browser.run(f"{box}.bottom") <= 844, "before anything is scrolled"
    labels = """[...document.querySelectorAll('#belief > text')].slice(0, 3).filter(
        label => getComputedStyle(label).visibility === 'visible').map(
        label => { const { left, right } = label.getBoundingClientRect(); return [left, right] })"""
    boxes = browser.run(labels)
    assert len(boxes) >= 2
    assert all(one[1] <= other[0] for one, other in pairwise(boxes)), "none upon another"
    assert browser.complaints == []
    browser.open(page, 1280)
    assert len(browser.run(labels)) == 3
