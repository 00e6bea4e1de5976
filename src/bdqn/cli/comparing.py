"""What ``bdqn compare`` and ``bdqn report`` ask for alike: a baseline, a seed, formats of figures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bdqn.cli.options import Parser
from bdqn.config.settings import SettingError, nearest


def add_flags(parser: Parser) -> None:
    parser.add_argument("--baseline", metavar="GROUP", help="whom the others are compared with [the first group]")
    parser.add_argument(
        "--format",
        metavar="LIST",
        default="png",
        help="of figures: png, pdf, svg, or several, as png,pdf [%(default)s]",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap [%(default)s]")


def check(args: argparse.Namespace) -> None:
    """Refuse what cannot be meant, before anything is read."""
    if args.seed < 0:
        raise SettingError(f"--seed must be at least 0, not {args.seed}.")
    from bdqn.report.figures import FORMATS

    for name in formats_of(args):
        if name not in FORMATS:
            raise SettingError(f"There is no format {name!r} of figures; {nearest(name, FORMATS)}")


def formats_of(args: argparse.Namespace) -> list[str]:
    """The formats that figures are written in."""
    return list(dict.fromkeys(args.format.split(",")))


def baseline_of(args: argparse.Namespace, groups: Sequence[str]) -> str:
    """The group that others are compared with; there must be one."""
    baseline: str = args.baseline or groups[0]
    if baseline not in groups:
        raise SettingError(f"There is no group {baseline!r}; {nearest(baseline, groups)}")
    return baseline
