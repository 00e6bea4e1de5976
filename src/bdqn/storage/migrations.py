"""How checkpoints of earlier formats are read. Imports no torch.

A checkpoint of bdqn 0.1, format 3, can be read by every later 0.x. Whoever changes what a file of a checkpoint holds
raises ``FORMAT``, and adds to ``MIGRATIONS`` how such a file is made from one of the format before;
`tests/reliability/test_golden.py` fails until then. A new setting whose default changes nothing needs neither. A
checkpoint that is read is not changed on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

FORMAT = 3  # of bdqn 0.1; formats 1 and 2 were never released

Content = Mapping[str, Any]
Migration = Callable[[Content], Content]

# For each earlier format, how the files that changed after it are made from their content. The first will be 3.
MIGRATIONS: dict[int, dict[str, Migration]] = {}


def is_readable(number: Any) -> bool:
    return isinstance(number, int) and (number == FORMAT or number in MIGRATIONS)


def migrated(name: str, content: Content, number: int) -> Content:
    """The content of a file of a checkpoint of format ``number``, as it would be written today."""
    for older in range(number, FORMAT):
        migration = MIGRATIONS[older].get(name)
        content = migration(content) if migration else content
    return content
