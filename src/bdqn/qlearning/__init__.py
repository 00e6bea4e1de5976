"""The Q-learning agent: what every method shares (`agent`), and the choices in which methods differ (`choices`).

May import: bayes, networks, replay, config, storage.state_files. Never Gymnasium, and no agent by name.
"""
