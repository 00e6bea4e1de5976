"""The replay buffer: every frame stored once, compressed if asked to, equal transitions found.

May import: nothing. Never: torch, gymnasium.
"""
