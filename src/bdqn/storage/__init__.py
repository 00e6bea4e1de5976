"""Files that survive crashes and hostile hands: atomic writes, bounded reads, tables, checkpoints.

May import: config, replay; `checkpoints` and `origin` also the learner.
"""
