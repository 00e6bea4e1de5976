"""Flags that ``bdqn compare`` and ``bdqn report`` share: baseline, seed and figure formats."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bdqn.cli.options import Parser
from bdqn.config.settings import SettingError, nearest


def add_flags(parser: Parser) -> None:
    parser.add_argument("--baseline", metavar="GROUP", help="group that the others are compared with [the first group]")
    parser.add_argument(
        "--format",
        metavar="LIST",
        default="png",
        help="figure formats: png, pdf, svg or several, such as png,pdf [%(default)s]",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap [%(default)s]")


def check(args: argparse.Namespace) -> None:
    """Validate the flags before anything is read."""
    if args.seed < 0:
        raise SettingError(f"--seed must be at least 0, not {args.seed}.")
    from bdqn.report.figures import FORMATS

    for name in formats_of(args):
        if name not in FORMATS:
            raise SettingError(f"Unknown figure format {name!r}; {nearest(name, FORMATS)}")


def formats_of(args: argparse.Namespace) -> list[str]:
    """Return the figure formats."""
    return list(dict.fromkeys(args.format.split(",")))


def baseline_of(args: argparse.Namespace, groups: Sequence[str]) -> str:
    """Return the group that the others are compared with."""
    baseline: str = args.baseline or groups[0]
    if baseline not in groups:
        raise SettingError(f"Unknown group {baseline!r}; {nearest(baseline, groups)}")
    return baseline
