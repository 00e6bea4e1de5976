"""Beliefs about the weights of a linear model: Gaussian posteriors, and draws backed up through them.

May import: nothing of the project. NumPy and SciPy only, float64 throughout.
"""
