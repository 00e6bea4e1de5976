"""Hyperparameter search: the paper's cheap search on frozen features, and Optuna over any setting."""
