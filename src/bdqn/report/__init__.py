"""Reports and figures, made from run directories alone: nothing here trains.

Pages draw inline SVG (``charts``), files use matplotlib (``figures``). May import: sweep, storage, config and
the agents' names. Neither torch nor Gymnasium.
"""
