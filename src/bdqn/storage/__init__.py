"""Files that survive crashes and resist malicious input: atomic writes, bounded reads, tables, checkpoints.

May import: config, replay; `saved_agents` also the learner.
"""
