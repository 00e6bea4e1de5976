"""Sums over a regression's rows are the same wherever they are taken."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bdqn.bayes.posterior import Moments
from bdqn.networks.sums import DeviceSums, HostSums, sums_on
from support.devices import on_each_device

DIM, ACTIONS = 7, 5


@on_each_device
@pytest.mark.parametrize("counted", [False, True])
def test_a_devices_sums_are_the_hosts(device: str, counted: bool) -> None:
    """Over several pieces, some of which lack actions; one action is never taken."""
    rng = np.random.default_rng(0)
    host, there = HostSums(Moments.zero(DIM, (ACTIONS,))), DeviceSums(DIM, ACTIONS, torch.device(device))
    for size, actions in ((300, 4), (20, 2), (1, 1)):
        rows = torch.from_numpy(rng.normal(size=(size, DIM))).to(device)
        target = torch.from_numpy(rng.normal(size=size).astype(np.float32)).to(device)
        action = rng.integers(actions, size=size)
        counts = rng.integers(1, 9, size=size) if counted else None
        for sums in (host, there):
            sums.add(rows, action, target, counts)
    for name, expected in vars(host.moments).items():
        np.testing.assert_allclose(getattr(there.moments, name), expected, rtol=1e-10, atol=1e-10, err_msg=name)
    assert not there.moments.gram[4].any()
    assert there.moments.count.tolist() == host.moments.count.tolist()


@on_each_device
def test_sums_are_taken_where_the_rows_are(device: str) -> None:
    assert isinstance(sums_on(torch.device(device), 2, 3), HostSums if device == "cpu" else DeviceSums)
