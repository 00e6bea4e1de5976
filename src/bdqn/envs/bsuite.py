"""bsuite's experiments (Osband et al. 2019, "Behaviour Suite for Reinforcement Learning"), with bsuite's own log.

bsuite computes its scores from its log of episodes. The log is part of an environment's state: a resumed run continues
it, and other environments, such as those of an evaluation, have their own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from bdqn.envs.extras import import_extra
from bdqn.envs.state import generator_state, require_like, set_generator_state

NAMESPACE = "bsuite/"
#: Whatever changes after an experiment is made, in its environments and in the wrappers around them.
CHANGING = (
    *("_steps", "_episode", "_total_return", "_episode_len", "_episode_return", "_reset_next_step", "_rng"),
    *("_state", "_raw_return", "_best_episode", "_total_upright", "_timestep", "_position", "_velocity"),
    *("_row", "_column", "_bad_episode", "_total_bad_episodes", "_denoised_return"),
    *("_ball_x", "_ball_y", "_paddle_x", "_paddle_y", "_context", "_query", "_episode_mistakes", "_total_perfect"),
    *("_need_umbrella", "_has_umbrella", "_correct_label", "_total_regret"),
)
Observation = NDArray[np.float32]
Row = dict[str, float]


class Bsuite(gym.Env[Observation, Any]):
    """One setting of one of bsuite's experiments, such as ``deep_sea/3``.

    As in bsuite, no end of an episode is a time-out: where there is a limit of time, the observation says the time.
    """

    def __init__(self, bsuite_id: str) -> None:
        """``bsuite_id`` is bsuite's own spelling."""
        suite, wrappers = (import_extra(name, "bsuite") for name in ("bsuite", "bsuite.utils.wrappers"))
        experiment, _ = suite.bsuite.unpack_bsuite_id(bsuite_id)
        self.bsuite_id = bsuite_id
        self.log: list[Row] = []  # bsuite's rows: episodes 1 to 10, then 12, 14, 17, 20 and so on
        try:
            made = suite.load(experiment, suite.sweep.SETTINGS[bsuite_id])
        except OSError as error:
            wanted = "for MNIST, put its four files (train-images-idx3-ubyte.gz and so on) into /tmp/mnist"
            raise OSError(f"bsuite cannot fetch what {bsuite_id} needs ({error}): {wanted}.") from error
        self._recorded = wrappers.Logging(made, self)
        seen = self._recorded.observation_spec()
        low, high = getattr(seen, "minimum", -np.inf), getattr(seen, "maximum", np.inf)
        self.observation_space = spaces.Box(np.float32(low), np.float32(high), seen.shape, np.float32)
        self.action_space = spaces.Discrete(self._recorded.action_spec().num_values)

    @property
    def num_episodes(self) -> int:
        """How many episodes bsuite's experiment has. Its scores leave out what comes after them."""
        return int(self._recorded.bsuite_num_episodes)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode. A seed decides what bsuite leaves to chance; the meaning of actions stays the setting's."""
        super().reset(seed=seed)
        if seed is not None:
            for layer in self._layers():
                if "_rng" in vars(layer):
                    layer._rng.seed(int(self.np_random.integers(2**32)))
        return self._recorded.reset().observation, {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take a decision."""
        seen = self._recorded.step(int(action))
        terminated = bool(seen.last() and seen.discount == 0)
        return seen.observation, float(seen.reward), terminated, bool(seen.last()) and not terminated, {}

    def write(self, data: Mapping[str, Any]) -> None:
        """Take a row of bsuite's log, whose logger this is."""
        self.log.append({name: np.asarray(value).item() for name, value in data.items()})

    def get_env_state(self) -> dict[str, Any]:
        """Return where the experiment stands, and its log."""
        return {"log": copy.deepcopy(self.log), "layers": [_changing(layer) for layer in self._layers()]}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_env_state` returned."""
        log = checked_log(state["log"])
        for layer, saved in zip(self._layers(), state["layers"], strict=True):
            own = _changing(layer)
            if saved.keys() != own.keys():
                raise ValueError(f"{self.bsuite_id} has {sorted(own)}, not {sorted(saved)}.")
            for name, value in saved.items():
                if name == "_rng":
                    set_generator_state(layer._rng, value)
                    continue
                require_like(name, value, own[name])
                # A tuple with names comes back from a file as a list.
                setattr(layer, name, type(own[name])(*value) if isinstance(own[name], tuple) else value)
        self.log = log

    def __deepcopy__(self, memo: dict[int, Any]) -> Bsuite:
        """Make it again, and put it where this one stands: functions inside of bsuite's cannot be copied."""
        twin = Bsuite(self.bsuite_id)
        memo[id(self)] = twin
        twin.spec = self.spec
        twin.np_random = copy.deepcopy(self.np_random, memo)
        twin.reset()  # a state is that of an experiment that has begun
        twin.set_env_state(self.get_env_state())
        return twin

    def _layers(self) -> Iterator[Any]:
        """bsuite's wrappers, outermost first, and the environment in them."""
        layer: Any = self._recorded
        yield layer
        while "_env" in vars(layer):
            layer = layer._env
            yield layer


def specs() -> list[EnvSpec]:
    """Every setting of every experiment, under an id: Gymnasium allows no second slash, so ``bsuite/deep_sea-3-v0``."""
    settings = import_extra("bsuite", "bsuite").sweep.SETTINGS
    made = "bdqn.envs.bsuite:Bsuite"
    return [EnvSpec(env_id_of(known), entry_point=made, kwargs={"bsuite_id": known}) for known in settings]


def env_id_of(bsuite_id: str) -> str:
    """The Gymnasium id of ``deep_sea/3``."""
    return f"{NAMESPACE}{bsuite_id.replace('/', '-')}-v0"


def bsuite_id_of(env_id: str) -> str:
    """The reverse of `env_id_of`."""
    experiment, _, setting = env_id.removeprefix(NAMESPACE).removesuffix("-v0").rpartition("-")
    return f"{experiment}/{setting}"


def checked_log(log: Iterable[Any]) -> list[Row]:
    """The rows of a log that was read from a file."""
    rows = [dict(row) for row in log]
    if not all(isinstance(value, int | float) for row in rows for value in row.values()):
        raise ValueError("this is not a log of bsuite's: a row holds more than numbers.")
    return rows


def save_log(log: Iterable[Row], bsuite_id: str, folder: str | Path) -> None:
    """Write a log as bsuite does: a CSV file for ``bsuite.logging.csv_load``."""
    logger = import_extra("bsuite.logging.csv_logging", "bsuite").Logger(bsuite_id, str(folder), overwrite=True)
    for row in log:
        logger.write(row)


def _changing(layer: Any) -> dict[str, Any]:
    own = vars(layer)
    return {name: generator_state(own[name]) if name == "_rng" else own[name] for name in CHANGING if name in own}
