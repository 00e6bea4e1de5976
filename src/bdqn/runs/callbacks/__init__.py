"""Whoever follows training: progress, early stopping, and the loggers of other tools."""
