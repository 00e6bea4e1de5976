"""The Q-learning agent: what every method shares (`agent`), and the choices in which methods differ (`choices`).

May import: bayes, config, density, networks, replay, storage.state_files. Never: gymnasium. It knows no agent by name.
"""
