"""How often has something like this been seen? Density models of observations, and the pseudo-counts that they give.

May import: config.observations. Never: torch, gymnasium.
"""
