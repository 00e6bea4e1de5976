"""Settings, presets and how they resolve to one validated configuration; seeds, extras and memory limits.

May import: agents (their settings only), envs.settings. Never torch or Gymnasium, so that reading a preset is fast.
"""
