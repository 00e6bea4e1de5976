"""``bdqn presets``: lists the presets, or shows all values of one with their sources."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bdqn.cli.options import Parser, text_of
from bdqn.config.preset_files import FAMILIES, default_agent, family_of, preset_names, read_preset
from bdqn.config.resolve import configure, known_settings
from bdqn.config.settings import SettingError, nearest


def run(argv: list[str]) -> int:
    """List the presets, or show one."""
    parser = Parser(prog="bdqn presets", description="List the presets, or show all values of one with their sources.")
    parser.add_argument("action", nargs="?", metavar="show", help="show one preset instead of listing all")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the preset to show")
    parser.add_argument("--agent", help="agent to show it for [the preset's own]")
    parser.add_argument("--family", help=f"environment family: {', '.join(FAMILIES)} [as in NAME, otherwise classic]")
    args = parser.parse(argv)
    if args.action is None:
        _list()
    elif args.action != "show" or args.name is None:
        parser.error("to show one preset, use: bdqn presets show NAME")
    else:
        family = args.family or family_of(args.name)
        _show(args.name, args.agent or default_agent(args.name, family), family)
    return 0


def _list() -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("preset", "decisions", "summary"):
        table.add_column(title, no_wrap=title == "preset")
    for name in preset_names():
        content = read_preset(name, "")
        table.add_row(name, f"{content['total_steps']:,}", content["summary"])
    Console().print(table)


def _show(name: str, agent: str, family: str) -> None:
    if family not in FAMILIES:
        raise SettingError(f"Unknown family {family!r}; {nearest(family, FAMILIES)}")
    configuration = configure(agent, family, name)
    table = Table(box=None, pad_edge=False)
    for title in ("setting", "value", "source", "meaning"):
        table.add_column(title, no_wrap=title == "setting")
    known = known_settings(agent, family)
    for setting, value in configuration.values.items():
        table.add_row(setting, text_of(value), configuration.sources[setting], known[setting].help)
    print(f"{configuration.preset}.toml for {agent} ({family}), {configuration.total_steps:,} decisions\n")
    Console().print(table)
