"""Files that survive crashes and hostile hands: atomic writes, bounded reads, tables, checkpoints.

May import: agents, config, learner, qlearning.finite_checks, replay. Only checkpoints and origin know the learner.
"""
