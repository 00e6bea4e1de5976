"""One training run: its loop, directory and tables, evaluation, playback and progress display.

May import: the learner and everything below it, storage. Not sweep, report, tune or cli.
"""
