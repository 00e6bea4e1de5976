"""What an agent needs of this machine's memory: what cannot fit is refused before anything is allocated."""

from __future__ import annotations

from bdqn.config.memory import free_memory
from bdqn.config.observations import ObservationSpec
from bdqn.config.settings import SettingError, Training
from bdqn.qlearning.choices import Choices
from bdqn.replay.buffer import bytes_per_frame


def check_agent_memory(
    spec: ObservationSpec, num_actions: int, choices: Choices, training: Training, *, masked: bool = False
) -> None:
    """Refuse minibatches, a posterior or a replay buffer that cannot fit beside one another."""
    taken = check_batch_memory(training.batch_size, spec, num_actions)
    if choices.fit:
        # Stacks of frames hardly recur, and frozen features grow only where observations do.
        grown = 0 if spec.stack else choices.fit.frozen_features_most
        frozen = max(choices.fit.frozen_features, grown)
        dim = choices.fit.parts * (training.features + frozen)
        rows = choices.fit.batch_size if choices.fit.keeps_rows else 0
        taken += check_posterior_memory(dim, num_actions, taken, rows, joint=choices.fit.joint, frozen=frozen)
    bonuses = choices.bonus is not None
    check_replay_memory(training, spec, taken, choices.members, num_actions if masked else 0, bonuses)


def check_replay_memory(
    training: Training,
    spec: ObservationSpec,
    taken: int = 0,
    members: int = 0,
    masked_actions: int = 0,
    bonuses: bool = False,
) -> None:
    """Refuse a replay buffer that cannot fit beside what is ``taken`` already, and say which would."""
    buffer_size = training.buffer_size
    beside = (members, masked_actions, bonuses, training.stored_completely > 0)
    per_frame = bytes_per_frame(spec.shape, spec.dtype, spec.stack, training.pack_frames, *beside)
    free = max(0, free_memory() - taken)
    fits = int(0.9 * free / per_frame)
    if buffer_size > fits:
        raise SettingError(
            f"A replay buffer of {buffer_size:,} frames needs {buffer_size * per_frame / 1e9:.1f} GB, but "
            f"{free / 1e9:.1f} GB are free: set buffer_size to at most {fits:,}."
        )


def check_batch_memory(batch_size: int, spec: ObservationSpec, num_actions: int) -> int:
    """Refuse minibatches that cannot fit; gives what they need."""
    # Observations and next ones, as stored and as the network reads them.
    per_row = 2 * spec.inputs * (spec.dtype.itemsize + 4)
    per_row += 4 * num_actions * 4  # Q-values: predicted, of both networks at the next observation, and a gradient
    free = free_memory()
    fits = int(0.9 * free / per_row)
    if batch_size > fits:
        smaller = "free some memory, make observations smaller, or offer fewer actions"
        raise SettingError(
            f"Minibatches of {batch_size:,} transitions need {batch_size * per_row / 1e9:.1f} GB, but "
            f"{free / 1e9:.1f} GB are free: {f'set batch_size to at most {fits:,}' if fits else smaller}."
        )
    return batch_size * per_row


def check_posterior_memory(
    dim: int, num_actions: int, taken: int = 0, rows: int = 0, *, joint: bool = False, frozen: int = 0
) -> int:
    """Refuse a regression whose matrices, and ``rows`` that it keeps, cannot fit; gives what they need.

    Of ``dim`` features so many are ``frozen`` ones, or may be once they have grown.
    """
    per_row = 2 * dim * (8 + 4)  # regressors in float64, next ones in float32; once more while they are put in order
    kept = rows * per_row
    # Gram matrix, precision, its factor, and what is in between; of a joint system, itself and its factor.
    per_square = 2 * num_actions**2 * 8 if joint else 6 * num_actions * 8
    needed = per_square * dim * dim + kept
    free = max(0, free_memory() - taken)
    if kept > 0.9 * free:
        raise SettingError(
            f"Keeping {rows:,} transitions of {dim:,} features needs {kept / 1e9:.1f} GB, but "
            f"{free / 1e9:.1f} GB are free: set posterior_batch_size to at most {int(0.9 * free / per_row):,}."
        )
    if needed > 0.9 * free:
        fits = int((max(0.0, 0.9 * free - kept) / per_square) ** 0.5)
        among = f", {frozen:,} frozen ones (prior_features, prior_features_most) included" if frozen else ""
        raise SettingError(
            f"A posterior over {dim:,} features and {num_actions} actions needs {needed / 1e9:.1f} GB, but "
            f"{free / 1e9:.1f} GB are free: "
            + (f"set features to at most {fits:,}{among}." if fits else "offer fewer actions.")
        )
    return needed
