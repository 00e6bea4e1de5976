"""What serves this paper alone: its tables as data, our cells beside them, its drawings and illustrations.

May import: report. Neither torch nor Gymnasium.
"""
