"""LSTD-Q (Lagoudakis and Parr, 2003): the values of a policy, solved for at once. NumPy only.

Fitted Q iteration regresses on targets that hold the old weights. Here the same weights stand on both sides: with
regressors x of the action taken, and x' of the action that the policy takes next, A w = b for

    A = sum x (x - discount x')'       b = sum x reward

where x has one block for each action, and is zero outside that of its own.
"""

from __future__ import annotations

import numpy as np

from bdqn.bayes.numerics import Array, PosteriorError, require_finite_mean
from bdqn.bayes.sampled_backups import Transitions


def lstd_q(rows: Transitions, weights: Array, ridge: float) -> Array:
    """Values of the policy that is greedy under ``weights`` (actions, d), pulled towards these by the ridge."""
    num_actions, dim = weights.shape
    q = rows.next_x @ weights.T
    next_action = (q if rows.next_allowed is None else np.where(rows.next_allowed, q, -np.inf)).argmax(1)
    matrix = np.zeros((num_actions, dim, num_actions, dim))
    right = np.zeros((num_actions, dim))
    for action in range(num_actions):
        own = rows.action == action
        weighted = rows.x[own] * rows.count[own, None]
        matrix[action, :, action] += weighted.T @ rows.x[own]
        right[action] = weighted.T @ rows.reward[own]
        discounted = weighted * rows.discount[own, None]
        for following in range(num_actions):
            then = next_action[own] == following
            matrix[action, :, following] -= discounted[then].T @ rows.next_x[own][then]
    size = num_actions * dim
    system = matrix.reshape(size, size)
    system[np.diag_indices(size)] += ridge
    try:
        solved = np.linalg.solve(system, right.ravel() + ridge * weights.ravel())
    except np.linalg.LinAlgError as error:
        raise PosteriorError("LSTD-Q's system has no solution: raise ridge, or use solver = fqi.") from error
    solution = solved.reshape(num_actions, dim).astype(np.float64)
    require_finite_mean(solution)
    return solution
