"""From observations to Q-values: torsos, heads, frozen priors, optimizers, and the hardware they run on.

May import: bayes, config. Never: gymnasium.
"""
