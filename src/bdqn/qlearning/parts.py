"""The parts of an agent as its choices and settings ask for them: generators, replay buffer, draws, and the fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bdqn.config.seeding import generator
from bdqn.qlearning.bold_draws import BoldDraws
from bdqn.qlearning.boldness import Boldness
from bdqn.qlearning.bonuses import Bonuses
from bdqn.qlearning.draws import Draws
from bdqn.qlearning.episode_returns import EpisodeReturns
from bdqn.qlearning.kept_data import DecayingFit, MinibatchFit
from bdqn.qlearning.last_layer import LastLayerFit
from bdqn.qlearning.loops import Loops
from bdqn.qlearning.online_fit import OnlineFit, check_synced
from bdqn.qlearning.targets import TDTargets
from bdqn.replay.buffer import Replay
from bdqn.replay.thinning import ThinnedReplay, Thinning

if TYPE_CHECKING:
    from bdqn.config.observations import ObservationSpec
    from bdqn.config.settings import Training
    from bdqn.networks.heads import Head
    from bdqn.qlearning.choices import Choices

Rngs = Mapping[str, np.random.Generator]


def make_generators(choices: Choices, training: Training, seed: int) -> dict[str, np.random.Generator]:
    """A generator for each kind of chance: one more of them leaves all others as they were."""
    optional = {
        "masks": choices.masks is not None,
        "boldness": choices.bold is not None,
        "storage": training.stored_completely > 0,
    }
    names = ("explore", "draw", "replay", "refit", *(name for name, there in optional.items() if there))
    return {name: generator(seed, name) for name in names}


def make_replay(
    choices: Choices, training: Training, spec: ObservationSpec, num_envs: int, rngs: Rngs, masked_actions: int = 0
) -> Replay:
    """A buffer for observations of this shape, with masks where the head's members or the actions have them."""
    kind: Callable[..., Replay] = Replay
    if training.stored_completely:
        thinning = Thinning(training.stored_completely, training.stored_segment)
        kind = partial(ThinnedReplay, thinning=thinning, rng=rngs["storage"])
    return kind(
        training.buffer_size,
        spec.shape,
        spec.dtype,
        num_envs,
        spec.stack,
        packed=training.pack_frames,
        n_steps=training.n_steps,
        members=choices.members,
        masked_actions=masked_actions,
        bonuses=choices.bonus is not None,
    )


def make_bonuses(choices: Choices, spec: ObservationSpec, seed: int) -> Bonuses | None:
    """Bonuses by a density model of these observations; None: rewards are the environment's alone."""
    return None if choices.bonus is None else Bonuses(choices.bonus, spec, generator(seed, "density"))


def keep_returns(choices: Choices, replay: Replay, targets: TDTargets) -> None:
    """Have a replay buffer give the returns of episodes with its transitions, if targets mix them in."""
    if choices.return_share:
        replay.returns_of = EpisodeReturns(replay, targets).at


def make_draws(choices: Choices, head: Head, gamma: float, num_envs: int, rngs: Rngs) -> Draws:
    """One kind of draws, or modest and bold ones."""
    if choices.bold is None:
        return Draws(head, choices.redraw, num_envs, rngs["draw"])
    boldness = Boldness(choices.bold, gamma, num_envs, rngs["boldness"])
    loops = Loops(num_envs) if choices.bold.leaves_loops else None
    return BoldDraws(head, choices.redraw, num_envs, rngs["draw"], boldness, loops)


def make_fit(
    choices: Choices, training: Training, targets: TDTargets, replay: Replay, draws: Draws, rngs: Rngs
) -> LastLayerFit | None:
    """The fit of the last layer, by where its data come from; None: gradients train it."""
    fit = choices.fit
    if fit is None:
        return None
    if fit.from_minibatches:
        return MinibatchFit(fit, targets, replay, draws, rngs, choices.bootstrap)
    if fit.online is not None:
        check_synced(fit, training.target_update_interval)
        return OnlineFit(fit, targets, replay, draws, rngs)
    return (DecayingFit if fit.decay else LastLayerFit)(fit, targets, replay, draws, rngs)
