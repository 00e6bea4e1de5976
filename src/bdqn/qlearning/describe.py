"""The choices of an agent in words, for tables and help texts."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from bdqn.qlearning.choices import Choices


def describe(choices: Choices) -> dict[str, str]:
    """The choices in words, which are the names of what was chosen."""
    extras = {
        "refit": choices.fit is not None,
        "backups": choices.fit is not None and choices.fit.keeps_rows,
        "boldness": choices.bold is not None,
        "masks": choices.masks is not None,
        "bonus": choices.bonus is not None,
        "mixed returns": choices.return_share > 0,
        "prior": choices.frozen_prior is not None,
        "no learning": not choices.learns,
    }
    return {
        "head": _words(choices.head).removesuffix(" head"),
        "policy": _words(choices.policy),
        "redraw": "never" if choices.redraw is None else str(choices.redraw),
        "bootstrap": _words(choices.bootstrap),
        "extras": ", ".join(name for name, there in extras.items() if there) or "none",
    }


def _words(chosen: Any) -> str:
    """A function's or a class's name as words."""
    name: str = chosen.func.__name__ if isinstance(chosen, partial) else chosen.__name__
    return re.sub("(?<=[a-z])(?=[A-Z])|_", " ", name).lower()
