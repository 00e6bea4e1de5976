"""Optional dependencies, imported when an environment needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bdqn.config.extras import missing


class MissingExtra(ImportError):
    """An environment needs packages that are not installed."""


def import_extra(module: str, extra: str) -> Any:
    """Import a module, or raise MissingExtra with the extra that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(missing("This environment", extra, f"{module}: {error}")) from error
