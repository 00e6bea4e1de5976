"""What cannot fit in memory is refused in one sentence, which says what would fit."""

from __future__ import annotations

import numpy as np
import pytest

from bdqn.agents import ddqn
from bdqn.config.observations import ObservationSpec
from bdqn.config.settings import SettingError, Training
from bdqn.qlearning import memory

VECTOR = ObservationSpec((2,), np.dtype(np.float32))


@pytest.fixture(autouse=True)
def _free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 10**9)


def test_minibatches_count_their_q_values() -> None:
    few, many = (memory.check_batch_memory(32, VECTOR, actions) for actions in (2, 10_002))
    assert many - few == 32 * 4 * 4 * 10_000
    with pytest.raises(SettingError, match=r"Minibatches of 32 .*: set batch_size to at most 5\.$"):
        memory.check_batch_memory(32, VECTOR, 10**7)


@pytest.mark.parametrize(
    ("spec", "actions"), [(VECTOR, 10**12), (ObservationSpec((), np.dtype(np.int64), categories=10**12), 2)]
)
def test_where_no_batch_size_fits_none_is_advised(spec: ObservationSpec, actions: int) -> None:
    with pytest.raises(
        SettingError, match=r"GB are free: free some memory, make observations smaller, or offer fewer actions\.$"
    ):
        memory.check_batch_memory(1, spec, actions)


def test_where_no_number_of_features_fits_none_is_advised() -> None:
    with pytest.raises(SettingError, match=r"GB are free: offer fewer actions\.$"):
        memory.check_posterior_memory(128, 10**9)


def test_masks_are_counted_with_the_replay_buffer() -> None:
    """A bit for each of 8,000 actions is 1 kB per frame."""
    training, choices = Training(buffer_size=10**6, batch_size=1), ddqn.choices(ddqn.Settings())
    memory.check_agent_memory(VECTOR, 8_000, choices, training)
    with pytest.raises(SettingError, match=r"A replay buffer of 1,000,000 frames needs 1\.0 GB, but"):
        memory.check_agent_memory(VECTOR, 8_000, choices, training, masked=True)
