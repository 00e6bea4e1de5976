"""Statistics, figures, tables and pages, made from run directories alone: nothing here trains.

May import: agents, bayes, config, linear, qlearning, runs.recording, storage, sweep. Never: torch, gymnasium.
"""
