"""Choosing settings: the paper's cheap search on frozen features, and a search over any setting by Optuna.

May import: config, envs, learner, qlearning, replay, report.compare, runs, storage, sweep.
"""
