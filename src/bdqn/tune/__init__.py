"""Hyperparameter search: the paper's cheap search on frozen features, and Optuna over any setting.

May import: config, envs, learner, qlearning, replay, report.compare, runs, storage, sweep.
"""
