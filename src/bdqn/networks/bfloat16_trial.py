"""What bfloat16 needs of a processor, tried: run as a script, in a process that may die of it.

It prints how long a training step of Atari's layers takes in float32 and in bfloat16.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bdqn.networks.freed_memory import keep_freed_memory

REPETITIONS = 5


def layers() -> nn.Sequential:
    """A convolution and a dense layer, of the sizes that Atari's network has."""
    return nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 20 * 20, 256))


def forward(network: nn.Module, screens: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        features: Tensor = network(screens)
    return features.float()


def seconds(loss: Callable[[], Tensor]) -> float:
    """The shortest of a few training steps."""
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        loss().backward()  # type: ignore[no-untyped-call]
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    network, screens = layers(), torch.rand(32, 4, 84, 84)
    half = seconds(lambda: forward(network, screens).square().mean())
    single = seconds(lambda: network(screens).square().mean())
    print(json.dumps({"float32": single, "bfloat16": half}))


if __name__ == "__main__":
    main()
