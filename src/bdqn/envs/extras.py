"""Optional dependencies, imported when an environment needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class MissingExtra(ImportError):
    """An environment needs packages that are not installed."""


def import_extra(module: str, extra: str) -> Any:
    """Import a module, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"This environment needs the {extra} extra: pip install 'bdqn[{extra}]' ({module}: {error})"
        ) from error
