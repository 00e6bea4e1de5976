"""Files that survive crashes and resist malicious input: atomic writes, bounded reads, tables, checkpoints.

May import: agents, config, learner, networks, qlearning.calibration, qlearning.finite_checks, replay.
Only saved_agents, shared_agents and export know the learner.
"""
