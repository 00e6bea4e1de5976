"""Choosing settings: the paper's cheap search on frozen features, and a search over any setting by Optuna."""
