"""Settings, presets and how they resolve to one validated configuration; seeds, extras and memory limits.

May import: agents, envs.settings. Never: torch, gymnasium. So reading a preset is quick.
"""
