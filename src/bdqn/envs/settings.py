"""Settings of Atari environments as plain data: named protocols and changes to them.

Published Atari scores differ as much by protocol as by agent, so every protocol has a name that is stored with a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class AtariProtocol:
    """How the emulator's frames become decisions, screens and episodes.

    An episode's frames are all emulator frames since the reset of the game, including no-ops. No protocol presses FIRE
    at reset, and none ends an episode at a lost life: at most, the lost life is terminal for the learner.
    """

    name: str
    frames_per_decision: int  # the action is repeated, and rewards are summed
    pooled_frames: tuple[int, ...]  # frames of a decision whose pixelwise maximum is observed, counted from 1
    repeat_action_probability: float  # sticky actions, drawn at every frame
    max_noops: int  # an episode starts after 1 to max_noops no-ops, or after none if this is 0
    max_episode_frames: int  # episodes are truncated here; 0 = no limit
    life_loss_is_terminal: bool = False  # for the learner only
    timeout_is_terminal: bool = False  # for the learner only
    rgb_mean: bool = False  # gray is the mean of R, G and B, not the emulator's luminance
    bilinear: bool = False  # screens are resized bilinearly and cut off to bytes, not by area and rounded
    evaluation_epsilon: float | None = None  # None = no separate evaluation phase
    evaluation_max_frames: int | None = None  # None = as in training

    def describe(self) -> str:
        """The protocol on one line."""
        noops = f"1 to {self.max_noops} no-ops at reset" if self.max_noops else "no no-ops at reset"
        limit = "no frame limit"
        if self.max_episode_frames:
            limit = f"at most {self.max_episode_frames} frames per episode"
            limit += " (then terminal for the learner)" if self.timeout_is_terminal else ""
        screen = ", gray as the mean of the colours" if self.rgb_mean else ""
        screen += ", resized bilinearly" if self.bilinear else ""
        return (
            f"Atari protocol {self.name}: {self.frames_per_decision} frames per decision, "
            f"maximum of frames {' and '.join(map(str, self.pooled_frames))}{screen}, "
            f"sticky actions {self.repeat_action_probability:g}, {noops}, no FIRE at reset, "
            f"a lost life is {'' if self.life_loss_is_terminal else 'not '}terminal for the learner, {limit}"
        )


PROTOCOLS: dict[str, AtariProtocol] = {
    protocol.name: protocol
    for protocol in (
        # The paper's text, "as in DQN", with the episode limit that Gym had in 2017.
        AtariProtocol("dqn", 4, (3, 4), 0.0, max_noops=30, max_episode_frames=400_000),
        # The authors' notebook: 3 x (1 + 3) + 1 frames, of which the 9th and the last are observed.
        AtariProtocol(
            "reference-code",
            13,
            (9, 13),
            0.0,
            max_noops=0,
            max_episode_frames=400_000,
            timeout_is_terminal=True,
            rgb_mean=True,
            bilinear=True,
        ),
        # Machado et al. 2018, "Revisiting the Arcade Learning Environment".
        AtariProtocol("machado", 4, (3, 4), 0.25, max_noops=0, max_episode_frames=108_000),
        # Mnih et al. 2015; an evaluation episode lasts 5 minutes. DDQN+ was evaluated with epsilon 0.001.
        AtariProtocol(
            "nature",
            4,
            (3, 4),
            0.0,
            max_noops=30,
            max_episode_frames=0,
            life_loss_is_terminal=True,
            evaluation_epsilon=0.05,
            evaluation_max_frames=18_000,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class AtariSettings:
    """A named protocol, with changes."""

    protocol: str = field(
        default="dqn",
        metadata={"help": f"how Atari games are played: {', '.join(PROTOCOLS)}"},
    )
    max_episode_frames: int | None = field(
        default=None,
        metadata={"help": "frames until an episode is truncated; 0 = no limit, unset = the protocol's"},
    )
    life_loss_is_terminal: bool | None = field(
        default=None,
        metadata={"help": "treat a lost life as terminal for the learner; unset = the protocol's"},
    )
    rgb_mean: bool | None = field(
        default=None,
        metadata={"help": "gray is the mean of the colours, not their luminance; unset = the protocol's"},
    )
    bilinear: bool | None = field(
        default=None,
        metadata={"help": "resize screens bilinearly, not by area; unset = the protocol's"},
    )

    def resolve(self) -> AtariProtocol:
        """Return the protocol with the changes applied."""
        if self.protocol not in PROTOCOLS:
            nearest = get_close_matches(self.protocol.lower(), PROTOCOLS, n=1, cutoff=0.0)[0]
            raise ValueError(
                f"Unknown Atari protocol {self.protocol!r}; did you mean {nearest!r}? "
                f"The protocols are {', '.join(PROTOCOLS)}."
            )
        if self.max_episode_frames is not None and self.max_episode_frames < 0:
            raise ValueError(f"max_episode_frames must be 0 (no limit) or more, not {self.max_episode_frames}.")
        changes = {
            name: value
            for name in ("max_episode_frames", "life_loss_is_terminal", "rgb_mean", "bilinear")
            if (value := getattr(self, name)) is not None
        }
        return replace(PROTOCOLS[self.protocol], **changes)
