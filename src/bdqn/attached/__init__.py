"""A posterior for agents that other libraries trained: their features are kept, their last layer becomes Bayesian.

May import: bayes, config, envs, learner, networks, qlearning. It imports neither Stable-Baselines3 nor Minari.
"""
