"""Atari 2600 games through ale_py's single-game interface, under a named protocol.

ale_py's vector interface is not used: single games can be cloned for exact resumption, and their scores are raw.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from bdqn.envs.catalog import UnknownEnvironment, find_spec, is_atari
from bdqn.envs.extras import import_extra
from bdqn.envs.settings import AtariProtocol, AtariSettings
from bdqn.envs.vector import TERMINAL_FOR_LEARNER

if TYPE_CHECKING:
    from ale_py import ALEInterface

Frames = NDArray[np.uint8]


class AtariEnv(gym.Env[Frames, Any]):
    """One game, observed as a stack of the last 4 gray screens, newest last. An episode's first screen is repeated.

    Each observation is a new array. Rewards are the game's score, summed over the frames of a decision.
    """

    frame_stack: ClassVar[int] = 4  # consecutive observations share all but one frame

    def __init__(
        self,
        game: str,
        protocol: AtariProtocol,
        frame_size: int = 84,
        full_action_space: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """``game`` is the name of a ROM, such as "space_invaders"."""
        ale_py = import_extra("ale_py", "atari")
        self._cv2 = import_extra("cv2", "atari")
        self._arguments = (game, protocol, frame_size, full_action_space, render_mode)
        self.protocol = protocol
        self.description = protocol.describe()
        self.render_mode = render_mode
        fps = round(60 / protocol.frames_per_decision)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": fps}

        # Set before the first interface is created, which prints a banner.
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale: ALEInterface = ale_py.ALEInterface()
        self.ale.setFloat(
            "repeat_action_probability", 0.0
        )  # done in step: ALE's clones do not contain the sticky action
        self.ale.setInt("max_num_frames_per_episode", protocol.max_episode_frames)
        self._rom = ale_py.roms.get_rom_path(game)
        self.ale.loadROM(self._rom)
        self._actions = self.ale.getLegalActionSet() if full_action_space else self.ale.getMinimalActionSet()

        shape = (self.frame_stack, frame_size, frame_size)
        self.action_space = gym.spaces.Discrete(len(self._actions))
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self._frames = np.zeros(shape, np.uint8)
        self._read_screen = self.ale.getScreenRGB if protocol.rgb_mean else self.ale.getScreenGrayscale
        self._screen = self._read_screen()
        self._newest_screen = np.empty_like(self._screen)
        self._lives = 0
        self._held = 0  # the current action; an episode begins with the no-op

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frames, dict[str, Any]]:
        """Start a game with some no-ops. A seed sets the generators of the emulator and of the no-ops."""
        super().reset(seed=seed)
        if seed is not None:
            self.ale.setInt("random_seed", int(self.np_random.integers(2**31)))
            self.ale.loadROM(self._rom)  # ALE reads the seed only here
        self.ale.reset_game()
        if self.protocol.max_noops:
            for _ in range(self.np_random.integers(1, self.protocol.max_noops, endpoint=True)):
                self.ale.act(0)
                if self.ale.game_over():
                    self.ale.reset_game()
        self._lives, self._held = self.ale.lives(), 0
        self._read_screen(self._screen)
        self._frames[:] = self._shrink(self._screen)
        return self._frames.copy(), self._info()

    def step(self, action: int) -> tuple[Frames, float, bool, bool, dict[str, Any]]:
        """Repeat an action for the frames of one decision, or until the game is over."""
        ale, pooled_frames, sticky = self.ale, self.protocol.pooled_frames, self.protocol.repeat_action_probability
        score = 0
        screens = 0
        for frame in range(1, self.protocol.frames_per_decision + 1):
            if not sticky or self.np_random.random() >= sticky:
                self._held = int(action)
            score += ale.act(self._actions[self._held])
            over = ale.game_over()  # or out of frames
            if over or frame in pooled_frames:
                self._look(pool=screens > 0)
                screens += 1
            if over:
                break
        self._frames[:-1] = self._frames[1:]
        self._frames[-1] = self._shrink(self._screen)

        truncated = ale.game_truncated()
        lives = ale.lives()
        info = self._info()
        info[TERMINAL_FOR_LEARNER] = (self.protocol.life_loss_is_terminal and lives < self._lives) or (
            self.protocol.timeout_is_terminal and truncated
        )
        self._lives = lives
        return self._frames.copy(), float(score), ale.game_over(with_truncation=False), truncated, info

    def __deepcopy__(self, memo: dict[int, Any]) -> AtariEnv:
        """A new emulator in the same state: the emulator itself cannot be copied."""
        twin = memo[id(self)] = type(self)(*self._arguments)
        twin.description = self.description
        twin.set_env_state(self.get_env_state())
        twin._np_random, twin._np_random_seed = copy.deepcopy((self._np_random, self._np_random_seed), memo)
        return twin

    def get_env_state(self) -> dict[str, Any]:
        """Return the state of the emulator, including its generator, and of this class."""
        state: bytes = self.ale.cloneState(include_rng=True).serialize()
        kept = {"frames": self._frames.copy(), "lives": self._lives, "held": self._held}
        return {"ale": np.frombuffer(state, np.uint8), **kept}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_env_state` returned."""
        frames, held = state["frames"], int(state["held"])
        if not 0 <= held < len(self._actions):
            raise ValueError(f"there is no action {held}.")
        if (frames.shape, frames.dtype, state["ale"].dtype) != (self._frames.shape, np.uint8, np.uint8):
            raise ValueError(f"the screens are {frames.dtype} {frames.shape}, not uint8 {self._frames.shape}.")
        try:
            self.ale.restoreState(type(self.ale.cloneState())(state["ale"].tobytes()))
        except SystemError as error:  # how ale_py reports errors
            raise ValueError("this is not a state of the emulator.") from error
        self._frames[:] = frames
        self._lives, self._held = int(state["lives"]), held

    def render(self) -> NDArray[np.uint8] | None:
        """Return the emulator's screen in colour."""
        return self.ale.getScreenRGB() if self.render_mode == "rgb_array" else None

    def get_action_meanings(self) -> list[str]:
        """Names of the actions, as in ale_py's own environment."""
        return [action.name for action in self._actions]

    def _look(self, pool: bool) -> None:
        """Read the screen, or its pixelwise maximum with the previous one."""
        if pool:
            self._read_screen(self._newest_screen)
            np.maximum(self._screen, self._newest_screen, out=self._screen)
        else:
            self._read_screen(self._screen)

    def _shrink(self, screen: Frames) -> Frames:
        cv2, size = self._cv2, self._frames.shape[1:]
        if self.protocol.bilinear:
            gray = screen.mean(-1, dtype=np.float32) if self.protocol.rgb_mean else screen.astype(np.float32)
            shares = cv2.resize(gray, size, interpolation=cv2.INTER_LINEAR) / np.float32(255)
            return np.asarray((shares * np.float32(255)).astype(np.uint8))  # the released program does not round
        if self.protocol.rgb_mean:
            screen = cv2.transform(screen, np.full((1, 3), 1 / 3))
        return np.asarray(cv2.resize(screen, size, interpolation=cv2.INTER_AREA))

    def _info(self) -> dict[str, Any]:
        return {"lives": self.ale.lives(), "frame_number": self.ale.getEpisodeFrameNumber()}


def make_atari(
    id_or_game: str,
    protocol: str = "dqn",
    max_episode_frames: int | None = None,
    life_loss_is_terminal: bool | None = None,
    rgb_mean: bool | None = None,
    bilinear: bool | None = None,
    frame_size: int = 84,
    full_action_space: bool = False,
    render_mode: str | None = None,
) -> AtariEnv:
    """Make an Atari environment from a registered id ("ALE/Pong-v5") or the name of a ROM ("pong").

    The protocol sets frame skip, sticky actions and frame limit, whatever the id says. ``max_episode_frames``,
    ``life_loss_is_terminal``, ``rgb_mean`` and ``bilinear`` change it as in `AtariSettings`.
    """
    settings = AtariSettings(protocol, max_episode_frames, life_loss_is_terminal, rgb_mean, bilinear)
    roms = import_extra("ale_py.roms", "atari")
    if id_or_game in roms.get_all_rom_ids():
        return AtariEnv(id_or_game, settings.resolve(), frame_size, full_action_space, render_mode)
    spec = find_spec(id_or_game)
    if not is_atari(spec):
        raise UnknownEnvironment(f"{id_or_game} is not an Atari environment.")
    env = AtariEnv(spec.kwargs["game"], settings.resolve(), frame_size, full_action_space, render_mode)
    env.description += f"; it overrides the frame skip and sticky actions of {id_or_game}"
    return env
