"""What each Atari protocol does, read off the emulator."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bdqn.envs import PROTOCOLS, TERMINAL_FOR_LEARNER, AtariEnv, AtariSettings, Environments, make_atari

pytest.importorskip("ale_py", reason="the atari extra is not installed")
cv2 = pytest.importorskip("cv2", reason="the atari extra is not installed")

NOOP, FIRE, RIGHT = 0, 1, 2  # of the minimal action sets of Pong and Breakout


def play(env: AtariEnv, seed: int, decisions: int = 40) -> list[bytes]:
    obs, _ = env.reset(seed=seed)
    actions = np.random.default_rng(0).integers(env.action_space.n, size=decisions)  # type: ignore[attr-defined]
    return [obs.tobytes()] + [env.step(int(action))[0].tobytes() for action in actions]


class Spy:
    """An emulator that remembers the actions that reach it."""

    def __init__(self, ale: Any) -> None:
        self.ale = ale
        self.taken: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ale, name)

    def act(self, action: Any) -> int:
        self.taken.append(action)
        return int(self.ale.act(action))


def stickiness(env: AtariEnv) -> float:
    """How often a frame repeats the action of the frame before, where another one was asked for."""
    env.reset(seed=0)
    env.ale = spy = Spy(env.ale)  # type: ignore[assignment]
    chances = stuck = 0
    held = env._actions[NOOP]
    for decision in range(300):
        action, before = RIGHT + decision % 2, len(spy.taken)
        env.step(action)
        for taken in spy.taken[before:]:
            chances += held != env._actions[action]
            stuck += taken == held != env._actions[action]
            held = taken
    env.ale = spy.ale
    return stuck / chances


@pytest.mark.parametrize(
    ("protocol", "frames", "sticky", "noops", "cap"),
    [
        ("dqn", 4, 0.0, range(1, 31), 400_000),
        ("reference-code", 13, 0.0, range(1), 400_000),
        ("machado", 4, 0.25, range(1), 108_000),
        ("nature", 4, 0.0, range(1, 31), 0),
    ],
)
def test_the_protocol_is_what_the_emulator_does(
    protocol: str, frames: int, sticky: float, noops: range, cap: int
) -> None:
    env = make_atari("pong", protocol)
    starts = [env.reset(seed=seed)[1]["frame_number"] for seed in range(3)]
    starts += [env.reset()[1]["frame_number"] for _ in range(40)]
    assert set(starts) <= set(noops)
    assert len(set(starts)) > len(noops) // 3
    numbers = [env.step(NOOP)[4]["frame_number"] for _ in range(3)]
    assert np.diff([starts[-1], *numbers]).tolist() == [frames] * 3
    assert stickiness(env) == pytest.approx(sticky, abs=0.05)
    assert env.ale.getInt("max_num_frames_per_episode") == cap


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_newest_frame_is_the_maximum_of_the_screens_that_the_protocol_names(protocol: str) -> None:
    env = make_atari("pong", protocol)
    play(env, seed=0, decisions=30)
    rgb = protocol == "reference-code"
    first, last = (9, 13) if rgb else (3, 4)
    alternatives = {
        (first, last): 0,
        (last,): 0,
        (first,): 0,
        (first - 1, last): 0,
    }  # greatest difference found
    for _ in range(20):
        state = env.ale.cloneState(include_rng=True)
        screens = []
        for _ in range(last):
            env.ale.act(env.ale.getMinimalActionSet()[RIGHT])
            screens.append(env.ale.getScreenRGB() if rgb else env.ale.getScreenGrayscale())
        env.ale.restoreState(state)
        newest = env.step(RIGHT)[0][-1]
        for frames in alternatives:
            screen = np.maximum.reduce([screens[frame - 1] for frame in frames])
            gray = screen.mean(-1) if rgb else screen
            how = cv2.INTER_LINEAR if rgb else cv2.INTER_AREA
            expected = cv2.resize(gray, (84, 84), interpolation=how).astype(int)
            alternatives[frames] = max(alternatives[frames], int(np.abs(newest - expected).max()))
    assert alternatives.pop((first, last)) <= 1  # a mean may be cut off on the other side of a whole number
    assert min(alternatives.values()) > 10


def test_the_protocol_overrides_what_an_id_registers_and_says_so() -> None:
    for env_id in ("ALE/Pong-v5", "PongNoFrameskip-v4", "Pong-v0"):
        env = make_atari(env_id)
        start = env.reset(seed=0)[1]["frame_number"]
        assert env.step(NOOP)[4]["frame_number"] - start == 4
        assert env.protocol.repeat_action_probability == 0.0
        assert env.description.startswith("Atari protocol dqn: 4 frames per decision, ")
        assert env.description.endswith(f"; it overrides the frame skip and sticky actions of {env_id}")
    assert "sticky actions 0.25" in make_atari("pong", "machado").description
    assert "\n" not in env.description


def test_an_episode_starts_with_its_first_frame_repeated_and_then_shifts() -> None:
    env = make_atari("pong", "machado")
    for options in ({"seed": 1}, {}):
        obs, _ = env.reset(**options)  # type: ignore[arg-type]
        assert obs in env.observation_space
        assert obs[0].any()
        assert all(np.array_equal(frame, obs[0]) for frame in obs)
        for _ in range(20):
            kept = obs.copy()
            next_obs = env.step(RIGHT)[0]
            assert np.array_equal(next_obs[:-1], obs[1:])
            assert np.array_equal(obs, kept)
            assert not np.shares_memory(obs, next_obs)
            obs = next_obs


def test_a_seed_fixes_no_ops_and_sticky_actions() -> None:
    protocol = replace(PROTOCOLS["machado"], max_noops=30)
    first = play(AtariEnv("breakout", protocol), seed=1)
    env = AtariEnv("breakout", protocol)
    assert play(env, seed=1) == first
    assert play(env, seed=1) == first
    assert play(env, seed=2) != first
    sticky = make_atari("breakout", "machado")
    assert play(sticky, seed=1) != play(sticky, seed=2)


def test_the_frame_limit_truncates_at_that_frame() -> None:
    env = make_atari("pong", max_episode_frames=42)
    start = env.reset(seed=0)[1]["frame_number"]
    assert (42 - start) % 4  # the limit falls inside a decision
    truncated = False
    while not truncated:
        _, _, terminated, truncated, info = env.step(NOOP)
        assert not terminated
        assert not info[TERMINAL_FOR_LEARNER]
    assert info["frame_number"] == 42
    assert env.reset()[1]["frame_number"] <= 30
    assert not env.step(NOOP)[3]


def test_the_frame_limit_can_be_removed() -> None:
    env = make_atari("pong", "machado", max_episode_frames=0)
    assert env.ale.getInt("max_num_frames_per_episode") == 0
    env.reset(seed=0)
    assert not any(env.step(NOOP)[3] for _ in range(50))
    assert "no frame limit" in env.description
    with pytest.raises(ValueError, match="must be 0"):
        make_atari("pong", max_episode_frames=-1)


def test_running_out_of_frames_is_terminal_for_the_learner_of_the_reference_code_only() -> None:
    for protocol, expected in (("reference-code", True), ("machado", False)):
        envs = Environments([make_atari("pong", protocol, max_episode_frames=20)], [0])
        while not (step := envs.step([NOOP])).ended[0]:
            assert not step.terminal[0]
        assert step.terminal[0] == expected
        assert step.truncated[0]
        assert step.episodes[0].truncated


@pytest.mark.parametrize(
    ("protocol", "override", "expected"),
    [("nature", None, 4), ("nature", False, 0), ("dqn", None, 0), ("dqn", True, 4)],
)
def test_a_lost_life_may_be_terminal_for_the_learner_while_the_game_goes_on(
    protocol: str, override: bool | None, expected: int
) -> None:
    env = make_atari("breakout", protocol, life_loss_is_terminal=override)
    envs = Environments([env], [0])
    lives, lost, marked = 5, 0, 0
    for decision in range(2000):
        step = envs.step([FIRE if decision % 10 == 0 else NOOP])  # FIRE serves the next ball
        if step.ended[0]:
            break
        lost += env.ale.lives() < lives
        marked += int(step.terminal[0])
        lives = env.ale.lives()
    assert (lost, marked) == (4, expected)  # the fifth ends the game
    assert step.terminal[0]
    assert not step.truncated[0]
    assert step.episodes[0].length == decision + 1


def test_rewards_are_the_score_itself_summed_over_a_decision() -> None:
    env = make_atari("space_invaders", "reference-code")
    env.reset(seed=0)
    state = env.ale.cloneState(include_rng=True)
    scores = [sum(env.ale.act(FIRE) for _ in range(13)) for _ in range(60)]
    env.ale.restoreState(state)
    assert [env.step(FIRE)[1] for _ in range(60)] == scores
    assert max(scores) > 1


def test_a_game_in_colour() -> None:
    env = make_atari("pong", render_mode="rgb_array", frame_size=42)
    assert env.reset(seed=0)[0].shape == (4, 42, 42)
    image = env.render()
    assert image is not None
    assert image.shape == (210, 160, 3)
    assert make_atari("pong").render() is None


@pytest.mark.parametrize("rgb_mean", [False, True])
@pytest.mark.parametrize("bilinear", [False, True])
def test_a_screen_by_hand(rgb_mean: bool, bilinear: bool) -> None:
    """One red pixel of 210 x 160, among black: gray 90 by luminance, 66.67 as a mean; then shrunk by cv2 itself."""
    env = make_atari("pong", "dqn", rgb_mean=rgb_mean, bilinear=bilinear)
    screen = np.zeros((210, 160, 3) if rgb_mean else (210, 160), np.uint8)
    screen[2, 3] = [200, 0, 0] if rgb_mean else 90
    shrunk = env._shrink(screen)
    # Row 1, column 1 of 84 x 84 stands at row 1.5 * 2.5 - 0.5 = 3.25 and column 1.5 * 160 / 84 - 0.5 = 2.357, so a
    # bilinear mean has rows 3 and 4, columns 2 and 3; row 0 stands at 0.75, with rows 0 and 1: row 2 is between them.
    if bilinear:
        assert not shrunk.any()
        screen[3, 3] = screen[2, 3]
        gray = 200 / 3 if rgb_mean else 90
        weight = 0.75 * (1.5 * 160 / 84 - 0.5 - 2)  # of row 3, and of column 3
        assert env._shrink(screen)[1, 1] == int(gray * weight)  # cut off: 17.86 is 17, 24.1 is 24
    else:
        gray = 67 if rgb_mean else 90
        by_area = np.zeros((210, 160), np.uint8)
        by_area[2, 3] = gray
        np.testing.assert_array_equal(shrunk, cv2.resize(by_area, (84, 84), interpolation=cv2.INTER_AREA))
        assert shrunk.any()


def test_settings_leave_a_protocol_alone_unless_told() -> None:
    for name, protocol in PROTOCOLS.items():
        assert AtariSettings(name).resolve() == protocol
        changed = AtariSettings(name, max_episode_frames=7, life_loss_is_terminal=True).resolve()
        assert changed == replace(protocol, max_episode_frames=7, life_loss_is_terminal=True)
        screens = AtariSettings(name, rgb_mean=not protocol.rgb_mean, bilinear=not protocol.bilinear).resolve()
        assert screens == replace(protocol, rgb_mean=not protocol.rgb_mean, bilinear=not protocol.bilinear)
