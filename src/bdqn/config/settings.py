"""Settings as self-describing frozen dataclasses. Imports no torch, no Gymnasium.

Every field has a description, which the command line's flags, ``bdqn presets show`` and error messages use.
"""

from __future__ import annotations

import difflib
import sys
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

MOST_ENVIRONMENTS = 4096  # stepped together

T = TypeVar("T")


class SettingError(ValueError):
    """Raised for an unknown setting or an invalid value. The message says what is valid."""


# A settings class may define READ_WITH: settings that have an effect only if another one, the switch, has this value.
ReadWith = Mapping[str, tuple[str, str]]


def setting(default: T, meaning: str, *, minimum: float | None = None, maximum: float | None = None) -> T:
    """Define a field with its description and, for numbers, its inclusive range."""
    value: T = field(default=default, metadata={"help": meaning, "minimum": minimum, "maximum": maximum})
    return value


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest what a mistyped name, or a name from another library, stands for."""
    options = sorted(known)
    plain = {_plain(option): option for option in options}
    typed = _plain(name)
    meant = [plain[other] for other in ALIASES.get(typed, "").split() if other in plain]
    if not meant and typed in ALTERNATIVES:
        return ALTERNATIVES[typed]
    close = meant or [plain[match] for match in difflib.get_close_matches(typed, plain, n=3, cutoff=0.5)]
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(options)}."


def _plain(name: str) -> str:
    """Normalize a name: a setting and its flag are the same."""
    return name.lower().lstrip("-").replace("-", "_")


def _by_name(names: Mapping[str, str]) -> dict[str, str]:
    """Invert ``{settings: aliases}`` to ``{alias: settings}``."""
    return {name: meant for meant, others in names.items() for name in others.split()}


# What other libraries and books call our settings. Names close enough to be guessed are omitted.
ALIASES = _by_name(
    {
        "learning_rate": "lr alpha step_size stepsize",
        "gamma": "discount discount_factor discount_rate",
        "exploration_initial_eps exploration_final_eps": "eps epsilon epsilon_greedy",
        "exploration_initial_eps": "eps_start epsilon_start initial_epsilon",
        "exploration_final_eps": "eps_end epsilon_end eps_min epsilon_min min_epsilon final_epsilon eps_final",
        "exploration_decay_steps": "exploration_fraction eps_decay epsilon_decay epsilon_decay_steps annealing_steps",
        "buffer_size": "memory capacity buffer memory_size memory_capacity replay replay_size replay_capacity",
        "batch_size": "batch bs minibatch minibatch_size",
        "n_steps": "n_step nstep multi_step multistep",
        "features mlp_layers": "hidden hidden_size hidden_sizes hidden_dim hidden_units hidden_layers net_arch layers",
        "target_update_interval": "target_update target_update_freq target_network_frequency tau sync_freq",
        "learning_starts": "warmup warm_up start_steps burn_in",
        "reward_clip": "clip_rewards clip_reward",
        "optimizer_eps": "adam_eps opt_eps",
        "members": "ensemble_size num_heads n_heads ensemble",
        "prior_var": "sigma",
        "noise_var": "sigma_eps",
        "ridge": "lambda lam",
        "steps": "total_timesteps timesteps total_steps num_steps max_steps n_timesteps",
        "num_envs": "n_envs envs",
        "env": "env_id env_name environment game",
        "agent": "algo algorithm",
        "threads": "num_threads n_threads cpus",
        "out": "output logdir log_dir save_path",
        "eval_freq": "evaluate_every eval_every",
        "save_freq": "checkpoint_freq save_every",
        "quiet": "verbose",
    }
)
# Settings of other libraries that are something else here.
ALTERNATIVES = {
    "verbose": "a learner prints nothing: pass a callback to learn(), such as bdqn.ProgressBar().",
    "policy": "observations determine the network (or pass network=...); the agent determines exploration.",
    "policy_kwargs": "features and mlp_layers set the network's size, or pass your own with network=...",
    "tensorboard_log": "pass callback=bdqn.TensorBoard(folder) to learn(), or use bdqn train --tensorboard.",
    **dict.fromkeys(
        ("total_timesteps", "timesteps", "total_steps", "steps"),
        "pass the number of decisions to learn(): learn(50_000).",
    ),
}


@dataclass(frozen=True)
class Setting:
    """One field of a settings class, with its type resolved."""

    name: str
    type: Any
    default: Any
    help: str
    minimum: float | None
    maximum: float | None

    @property
    def choices(self) -> tuple[str, ...]:
        return typing.get_args(self.type) if typing.get_origin(self.type) is Literal else ()

    def parse(self, text: str) -> Any:
        """Convert the text of a command-line argument."""
        kinds = set(typing.get_args(self.type)) or {self.type}
        if type(None) in kinds and text.lower() in ("none", ""):
            return None
        if bool in kinds:
            if text.lower() not in ("true", "false"):
                raise SettingError(f"{self.name} must be true or false, not {text!r}.")
            return text.lower() == "true"
        number = float if float in kinds else int if int in kinds else None
        if number is None:
            return text
        try:
            return number(text.replace("_", ""))
        except ValueError:
            if number is int:
                try:
                    value = float(text)
                    if value.is_integer():  # such as 1e5
                        return int(value)
                except ValueError:
                    pass
            raise SettingError(f"{self.name} must be a number, not {text!r} ({self.help})") from None

    def check(self, value: Any) -> None:
        """Raise SettingError for a value of the wrong type or out of range."""
        kinds = typing.get_args(self.type) or (self.type,)
        if self.choices:
            if value not in self.choices:
                raise SettingError(f"{self.name} must be one of {', '.join(self.choices)}, not {value!r}.")
            return
        accepted = (*kinds, int) if float in kinds else kinds
        if not isinstance(value, tuple(accepted)) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join("none" if kind is type(None) else kind.__name__ for kind in kinds)
            raise SettingError(f"{self.name} must be {names}, not {value!r} ({self.help})")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if not abs(value) <= sys.float_info.max:  # math.isfinite fails on an integer of 400 digits
                raise SettingError(f"{self.name} must be a finite number, not {value!r:.40} ({self.help})")
            low, high = self.minimum, self.maximum
            if not ((low is None or value >= low) and (high is None or value <= high)):
                span = f"at least {low}" if high is None else f"between {low} and {high}"
                raise SettingError(f"{self.name} must be {span}, not {value!r} ({self.help})")


def settings_of(cls: type) -> dict[str, Setting]:
    """Return the settings of a dataclass, by name."""
    types = typing.get_type_hints(cls)
    read_with: ReadWith = getattr(cls, "READ_WITH", {})
    when = {name: f" (only with {switch} = {needed})" for name, (switch, needed) in read_with.items()}
    return {
        f.name: Setting(
            f.name,
            types[f.name],
            None if f.default is MISSING else f.default,
            f.metadata["help"] + when.get(f.name, ""),
            f.metadata.get("minimum"),
            f.metadata.get("maximum"),
        )
        for f in fields(cls)
    }


def build(cls: type[T], values: Mapping[str, Any]) -> T:
    """Create an instance of a settings class. Every value is validated."""
    known = settings_of(cls)
    for name, value in values.items():
        if name not in known:
            raise SettingError(f"Unknown setting {name!r}; {nearest(name, known)}")
        known[name].check(value)
    return cls(**values)


@dataclass(frozen=True)
class Training:
    """Settings that all agents of a comparison share."""

    gamma: float = setting(0.99, "discount factor", minimum=0, maximum=1)
    learning_rate: float = setting(5e-4, "learning rate of the optimizer", minimum=0)
    optimizer: Literal["adam", "rmsprop"] = setting(
        "adam", "adam, or rmsprop: Graves' centered RMSProp with momentum, epsilon inside the square root"
    )
    optimizer_eps: float = setting(1e-5, "epsilon of the optimizer", minimum=0)
    momentum: float = setting(0.95, "rmsprop only: decay of both averages and of the momentum", minimum=0, maximum=1)
    loss: Literal["huber", "squared"] = setting("huber", "loss on the temporal-difference error")
    gradient_divisor: float = setting(
        1.0, "divide the loss by this (the released program divides by 32 twice)", minimum=1e-12
    )
    batch_size: int = setting(32, "transitions per gradient update", minimum=1)
    train_freq: int = setting(4, "decisions per gradient update", minimum=1)
    learning_starts: int = setting(1_000, "random decisions before learning starts", minimum=1)
    buffer_size: int = setting(100_000, "frames in the replay buffer", minimum=8)
    pack_frames: bool = setting(False, "compress the replay buffer: far less memory for screens, a few percent slower")
    stored_completely: int = setting(
        0,
        "decisions of an episode that are all stored; a later segment is stored with probability stored_completely / "
        "its first decision; 0: everything is stored",
        minimum=0,
    )
    stored_segment: int = setting(
        100, "with stored_completely: decisions that are stored or left out together", minimum=1
    )
    target_update_interval: int = setting(1_000, "T^T: decisions between copies to the target network", minimum=1)
    n_steps: int = setting(1, "n-step returns: rewards that a target sums before it bootstraps", minimum=1, maximum=255)
    reward_clip: float = setting(0.0, "clip rewards to +-this for learning; 0: no clipping", minimum=0)
    reward_scaling: bool = setting(
        False, "divide rewards by the root mean square of the first nonzero ones, for learning"
    )
    timeout_is_terminal: bool = setting(False, "treat a time-out as a terminal state, without bootstrapping")
    features: int = setting(128, "width of the last hidden layer: the regression's features", minimum=1)
    mlp_layers: int = setting(2, "dense layers for flat observations, each of width features", minimum=1, maximum=100)
    batch_norm: bool = setting(False, "normalise by minibatch after each convolution, as the released program does")
    initialisation: Literal["uniform", "normal"] = setting(
        "uniform", "PyTorch's own; or the released program's: weights N(0, 0.02^2), N(0, 0.01^2) for bdqn's last layer"
    )
    precision: Literal["float32", "bfloat16"] = setting(
        "float32", "precision of the layers up to the features; bfloat16 is faster only with hardware support"
    )


@dataclass(frozen=True)
class Supervision:
    """How to handle an environment that fails."""

    restart_env: int = setting(
        0, "restarts of a failing environment before the run ends; each truncates its episode", minimum=0
    )
    step_timeout: float | None = setting(
        None, "seconds after which a step of the environment counts as failed; unset: no timeout", minimum=0.001
    )

    def __bool__(self) -> bool:
        """Whether supervision is on."""
        return bool(self.restart_env or self.step_timeout)

    @property
    def saved(self) -> dict[str, dict[str, Any]]:
        """The entry in files: empty without supervision."""
        return {"supervision": asdict(self)} if self else {}
