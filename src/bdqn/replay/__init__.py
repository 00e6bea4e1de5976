"""The replay memory: every frame stored once, compressed if asked to, equal transitions found.

May import: nothing of the project. NumPy only.
"""
