"""Statistics, figures, tables and pages, made from run directories alone: nothing here trains.

Pages draw inline SVG (`charts`), files use matplotlib (`figures`).
May import: agents, bayes, config, linear, qlearning, runs.recording, storage, sweep. Never: torch, gymnasium.
"""
