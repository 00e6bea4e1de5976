"""What is written as TOML is read back as it was."""

from __future__ import annotations

import sys
import tomllib
from typing import Any

import pytest

from bdqn.storage.toml import toml_text

CODE_POINTS = [chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i <= 0xDFFF]  # all that a text may hold


def test_every_character_is_read_back() -> None:
    everything = "".join(CODE_POINTS)
    content = {"text": everything}
    assert tomllib.loads(toml_text(content)) == content


def test_every_control_character_is_read_back_by_itself() -> None:
    for character in CODE_POINTS[:0x300]:
        content = {character: character, "table": {character: character}}
        assert tomllib.loads(toml_text(content)) == content, hex(ord(character))


def test_delete_is_escaped() -> None:
    content = {"env_kwargs": {"na\x7fme": "\x7f", "list": ["a\x7f"]}}
    text = toml_text(content)
    assert "\x7f" not in text  # U+007F must be escaped, or tomllib refuses the file
    assert tomllib.loads(text) == content


def test_keys_keep_their_order_and_none_is_left_out() -> None:
    content = {"z": 1, "a": None, "table": {"y": 2, "b": None, "c": {"n": None}}, "m": "last value before the tables"}
    read = tomllib.loads(toml_text(content))
    assert list(read) == ["z", "m", "table"]
    assert list(read["table"].items()) == [("y", 2), ("c", {})]


@pytest.mark.parametrize(
    "value",
    [True, 0, -(10**30), 1e-300, -0.5, 1e16, float("inf"), "", "'\"\\", [], [[1.5], ["x"]], {"": {"a b": [{}]}}],
)
def test_every_kind_of_value_is_read_back(value: Any) -> None:
    content = {"value": value, "table": {"value": value}}
    assert tomllib.loads(toml_text(content)) == content
