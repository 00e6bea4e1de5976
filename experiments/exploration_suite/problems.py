"""What chance and the best policy collect in an episode of each problem."""

from __future__ import annotations

from bdqn.envs import make_env

# Where an environment cannot compute them. MountainCar and Acrobot: well-known scores of good policies. MiniGrid: the
# mean of 60 episodes of random actions; 1 is what an episode of no length would pay.
KNOWN = {
    "MountainCar-v0": (-200.0, -105.0),
    "bdqn/DeepSea10-v0": (0.0, 0.99),
    "bdqn/StochasticDeepSea10-v0": (0.0, 0.377),
    "bdqn/MiniGridEmpty-v0": (0.058, 1.0),
    "bdqn/MiniGridDoorKey-v0": (0.017, 1.0),
}


def bounds(env_id: str) -> tuple[float, float]:
    """The return of a random policy, and that of the best one."""
    if env_id in KNOWN:
        return KNOWN[env_id]
    problem = make_env(env_id).unwrapped
    return float(problem.random_return), float(problem.optimal_return)  # type: ignore[attr-defined]
