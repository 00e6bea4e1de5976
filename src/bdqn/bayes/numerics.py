"""Linear algebra that never falls back silently: what cannot be computed names the action, the cause and the remedy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

Array = NDArray[np.float64]


class PosteriorError(ArithmeticError):
    """A posterior that cannot be computed: the message names the action, the cause and the remedy."""


def solve(factor: Array, rhs: Array) -> Array:
    """(factor factor')^-1 rhs, for columns of right-hand sides (..., d, n)."""
    return solve_triangle(factor, solve_triangle(factor, rhs), transposed=True)


def solve_triangle(factor: Array, rhs: Array, *, transposed: bool = False) -> Array:
    """Solve factor u = rhs, or factor' u = rhs."""
    if factor[..., 0, 0].size >= factor.shape[-1]:
        # Many small systems: SciPy visits a batch one by one, NumPy within one call (but unaware of the triangle).
        return np.asarray(np.linalg.solve(np.swapaxes(factor, -1, -2) if transposed else factor, rhs), np.float64)
    return np.asarray(solve_triangular(factor, rhs, lower=True, trans="T" if transposed else "N", check_finite=False))


def inverse(factor: Array) -> Array:
    """(factor factor')^-1, at a third of what ``solve`` takes for it."""
    whole = np.empty_like(factor)
    for index in np.ndindex(factor.shape[:-2]):
        lower = lapack.dpotri(factor[index], lower=1)[0]  # above its diagonal are the factor's zeros
        np.add(lower, lower.T, out=whole[index])
        np.fill_diagonal(whole[index], np.diagonal(lower))
    return whole


def inverse_diagonal(factor: Array) -> Array:
    """The diagonal of (factor factor')^-1, for less than the whole of it."""
    diagonal = np.empty(factor.shape[:-1])
    for index in np.ndindex(factor.shape[:-2]):
        triangle = lapack.dtrtri(factor[index], lower=1)[0]
        diagonal[index] = np.einsum("ij,ij->j", triangle, triangle)
    return diagonal


def cholesky(precision: Array) -> Array:
    """The lower factor; a matrix that is not positive definite within rounding is named and refused."""
    try:
        factor = np.asarray(np.linalg.cholesky(precision), np.float64)
        _require_pivots(factor, precision)
        return factor
    except np.linalg.LinAlgError:
        pass
    for index in np.ndindex(precision.shape[:-2]):  # find the culprit, to name it
        try:
            _require_pivots(np.asarray(np.linalg.cholesky(precision[index])), precision[index])
        except np.linalg.LinAlgError as error:
            condition = float(condition_number(precision[index]))
            raise PosteriorError(
                f"The posterior precision of {_name(index)} is not positive definite (condition number "
                f"{condition:.3g}): the features are too large or too alike for the prior. "
                "Raise the ridge (a smaller prior_var, or a larger noise_var), or lower the learning rate."
            ) from error
    raise PosteriorError("A batched Cholesky factorisation failed although each matrix factors alone.")


def _require_pivots(factor: Array, precision: Array) -> None:
    """Refuse pivots within rounding error of zero: whether those come out positive is chance, the belief noise."""
    pivots = np.diagonal(factor, axis1=-2, axis2=-1) ** 2
    # d roundings in the factorisation, and a few (10) in the sums that made the Gram matrix.
    rounding = (factor.shape[-1] + 10) * np.finfo(np.float64).eps * np.diagonal(precision, axis1=-2, axis2=-1)
    if (pivots <= rounding).any():
        raise np.linalg.LinAlgError("a pivot is lost in rounding")


def estimated_condition_number(factor: Array) -> Array:
    """Of the matrices with these Cholesky factors, in the 1-norm, by LAPACK: far cheaper than eigenvalues."""
    estimates = np.empty(factor.shape[:-2])
    for index in np.ndindex(estimates.shape):
        norm = np.abs(factor[index] @ factor[index].T).sum(0).max()
        reciprocal, _ = lapack.dpocon(factor[index], norm, uplo="L")
        # To six digits: LAPACK's last ones depend on where the arrays lie in memory, and equal runs must stay equal.
        estimates[index] = float(f"{1 / reciprocal:.6g}") if reciprocal > 0 else np.inf
    return estimates


def condition_number(precision: Array) -> Array:
    """Largest over smallest eigenvalue; infinite for a singular matrix."""
    eigenvalues = np.linalg.eigvalsh(precision)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(eigenvalues[..., 0] > 0, eigenvalues[..., -1] / eigenvalues[..., 0], np.inf))


def require_finite(gram: Array, cross: Array, squares: Array) -> None:
    """Refuse the data of a regression that hold a NaN or an infinity."""
    for name, value, trailing in (("gram", gram, 2), ("cross", cross, 1), ("squares", squares, 0)):
        bad = ~np.isfinite(value).all(axis=tuple(range(value.ndim - trailing, value.ndim)))
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            raise PosteriorError(
                f"The regression data of {_name(index)} hold a non-finite value (moment: {name}; condition number "
                "undefined): features or targets have diverged. Lower the learning rate or clip the rewards."
            )


def require_finite_mean(mean: Array) -> None:
    """Refuse weights that overflowed."""
    bad = ~np.isfinite(mean).all(axis=-1)
    if bad.any():
        raise PosteriorError(
            f"The posterior mean of {_name(tuple(int(i) for i in np.argwhere(bad)[0]))} is not finite: the regression "
            "overflowed. Lower the learning rate, clip the rewards, or raise the ridge."
        )


def _name(index: tuple[int, ...]) -> str:
    return f"action {index[-1]}" if index else "the regression"
