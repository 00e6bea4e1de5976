"""Many runs as one job: a file defines them, an engine runs them, and each can be resumed.

May import: config, envs, networks.device, runs, storage. Never: torch, gymnasium.
"""
