"""Many runs as one job: a file names them, an engine carries them out, and every run can be resumed.

May import: config, envs, networks.device, runs, storage. Never: torch, gymnasium.
"""
