"""Settings, presets, and how they resolve to one checked configuration; seeds, extras and memory limits.

May import: agents (their settings only), envs.settings. Never torch or Gymnasium: reading a preset is quick.
"""
