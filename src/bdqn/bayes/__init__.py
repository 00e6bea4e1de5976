"""Beliefs about the weights of a linear model: Gaussian posteriors, and draws backed up through them.

May import: nothing. Never: torch, gymnasium. NumPy and SciPy only, float64 throughout.
"""
