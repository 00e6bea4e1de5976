"""Configurations as TOML text. The standard library only reads TOML, so tomli-w writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomli_w


def toml_text(content: Mapping[str, Any]) -> str:
    """Format values first, then tables. Keys keep their order. ``None`` is left out: TOML cannot express it."""
    return tomli_w.dumps(_without_none(content))


def _without_none(content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in content.items()
        if value is not None
    }
