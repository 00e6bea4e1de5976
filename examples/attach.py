"""A figure: what the spread of an SB3 agent's Q-values tells that the values do not.

A DQN of Stable-Baselines3 learns MountainCar. Left: the states in its replay buffer. Middle: the value that its network
gives to every state, visited or not. Right: how unsure `bdqn.attach` is of that value. Needs the dev extra.

    python examples/attach.py --out docs/images/attach.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers import RescaleObservation
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray
from stable_baselines3 import DQN

import bdqn
from bdqn.bayes.numerics import Array
from bdqn.report.figures import name_axes, save

DECISIONS = 15_000
CELLS = (32, 32)  # of positions and velocities, both between -1 and 1


def environment() -> gym.Env[NDArray[np.float32], np.int64]:
    """MountainCar, its position and its velocity between -1 and 1."""
    return RescaleObservation(gym.make("MountainCar-v0"), np.float32(-1), np.float32(1))


def train() -> DQN:
    torch.set_num_threads(1)
    model = DQN(
        "MlpPolicy",
        environment(),
        seed=0,
        learning_rate=1e-3,
        learning_starts=1_000,
        target_update_interval=500,
        exploration_fraction=0.3,
        buffer_size=DECISIONS,
        device="cpu",
    )
    return model.learn(DECISIONS)


def states() -> NDArray[np.float32]:
    """The middle of every cell. (positions * velocities, 2)"""
    axes = [-1 + (np.arange(n) + 0.5) * 2 / n for n in CELLS]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float32)


def visits(model: DQN) -> Array:
    buffer = model.replay_buffer
    assert buffer is not None
    seen = buffer.observations[: buffer.size(), 0]
    return np.histogram2d(seen[:, 0], seen[:, 1], bins=CELLS, range=[(-1, 1), (-1, 1)])[0]


def separation(score: Array, visited: NDArray[np.bool_]) -> float:
    """Probability that a state never visited has a higher score than one that was (0.5: the score tells nothing)."""
    unseen, seen = score[~visited], score[visited]
    return float((unseen[:, None] > seen).mean() + (unseen[:, None] == seen).mean() / 2)


def draw(axes: Axes, values: Array, title: str) -> AxesImage:
    extent = (-1, 1, -1, 1)
    image = axes.imshow(values.reshape(CELLS).T, origin="lower", extent=extent, aspect="auto", cmap="viridis")
    axes.set_title(title, fontsize=10)
    name_axes(axes, "position", "velocity")
    axes.figure.colorbar(image, ax=axes, shrink=0.8)
    return image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("docs/images/attach.png"))
    out: Path = parser.parse_args().out
    model = train()
    posterior = bdqn.attach(model)
    q = posterior.q_posterior(states())
    with torch.no_grad():
        value = model.q_net(torch.from_numpy(states())).numpy().max(1)
    std = q.std.mean(1)
    count = visits(model)
    visited = count.ravel() > 0
    figure = Figure(figsize=(12, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    draw(left, np.where(visited, np.log10(np.maximum(count.ravel(), 1)), np.nan), "visits in its buffer, log 10")
    draw(middle, value, "its network's value: a number everywhere")
    draw(right, np.log10(std), "standard deviation of Q, log 10, mean of the actions")
    centres, inside = states().reshape(*CELLS, 2), visited.reshape(CELLS).astype(float)
    for axes in (middle, right):  # the border of what was visited
        axes.contour(centres[:, 0, 0], centres[0, :, 1], inside.T, levels=[0.5], colors="white", linewidths=0.8)
    save(figure, out)
    print(f"{posterior}, calibration: {posterior.calibration}")
    print(f"median std where visited {np.median(std[visited]):.4f}, elsewhere {np.median(std[~visited]):.4f}")
    print(f"a state never visited has the larger spread with probability {separation(std, visited):.2f},")
    print(f"the lower value with probability {separation(-value, visited):.2f} (chance: 0.50)")


if __name__ == "__main__":
    main()
