"""One training run: its loop, directory and tables, evaluation, playback and progress display.

May import: config, envs, learner, qlearning, replay, storage. Never: matplotlib.
"""
