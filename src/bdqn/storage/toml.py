"""Writing the little TOML that a run's configuration needs; the standard library only reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def toml_text(content: Mapping[str, Any]) -> str:
    """Values, then tables one level deep. What is None is left out: TOML has no such value."""
    tables = {key: value for key, value in content.items() if isinstance(value, Mapping)}
    lines = _lines({key: value for key, value in content.items() if key not in tables})
    for name, table in tables.items():
        lines += ["", f"[{_key(name)}]", *_lines(table)]
    return "\n".join(lines) + "\n"


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in values.items() if value is not None]


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _text(text: str) -> str:
    """As JSON writes it, but for the one character more that TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return repr(value)
    if isinstance(value, float):
        return repr(float(value))  # NumPy's floats call themselves np.float64(...)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_lines(value))} }}"
    raise TypeError(f"TOML cannot hold {value!r} of type {type(value).__name__}.")
