"""Reads the files that Weights & Biases keeps offline: records in LevelDB's log format, 32 KB by 32 KB."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK, OWN_HEADER, HEADER = 32_768, 7, 7
FULL, FIRST, LAST = 1, 2, 4


def records(file: Path) -> Iterator[Any]:
    """The records of a .wandb file."""
    from wandb.proto import wandb_internal_pb2

    content, at, parts = file.read_bytes(), OWN_HEADER, b""
    while at + HEADER <= len(content):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + HEADER])
        part = content[at + HEADER : at + HEADER + length]
        at += HEADER + length
        parts = part if kind in (FULL, FIRST) else parts + part
        if kind in (FULL, LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            yield record
