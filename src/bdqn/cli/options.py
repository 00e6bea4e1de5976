"""Flags made from settings, and errors that say what was meant instead of what was wrong."""

from __future__ import annotations

import argparse
import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Never

from bdqn.settings import Setting, SettingError, nearest


class Parser(argparse.ArgumentParser):
    """An argument parser that raises SettingError, and suggests a flag for an unknown one."""

    def __init__(self, **options: Any) -> None:
        # Abbreviations would make a flag's meaning depend on which others exist.
        super().__init__(allow_abbrev=False, formatter_class=_Formatter, **options)

    def error(self, message: str) -> Never:
        raise SettingError(f"{message} (see {self.prog} --help)")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse all of ``argv``."""
        namespace, unknown = self.parse_known_args(argv)
        if unknown:
            self.refuse(unknown[0])
        return namespace

    def refuse(self, argument: str) -> Never:
        """Say what an argument that has no meaning may have been meant for."""
        if not argument.startswith("-"):
            self.error(f"{argument!r} belongs to no flag")
        flag = argument.partition("=")[0]
        raise SettingError(f"{self.prog} has no flag {flag}; {nearest(flag, self._option_string_actions)}")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions, and flags apart from their meaning."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34)


def flag(name: str) -> str:
    """A setting's flag."""
    return f"--{name.replace('_', '-')}"


def add_settings(
    group: argparse._ActionsContainer,
    settings: Mapping[str, Setting],
    values: Mapping[str, Any] | None = None,
) -> None:
    """A flag for every setting, kept as text until it is read; ``values`` are shown as the defaults."""
    for name, setting in settings.items():
        value = None if values is None else values[name]
        default = "" if value in (None, "") else f" [{text_of(value)}]"
        group.add_argument(
            flag(name),
            dest=name,
            metavar=_metavar(setting),
            default=argparse.SUPPRESS,
            help=(setting.help + default).replace("%", "%%"),
        )


def given(namespace: argparse.Namespace, settings: Mapping[str, Setting]) -> dict[str, Any]:
    """The settings that the user gave, with their types."""
    texts = vars(namespace)
    return {name: setting.parse(texts[name]) for name, setting in settings.items() if name in texts}


def flags(values: Mapping[str, Any]) -> list[str]:
    """The words of a command line that set these."""
    return [word for name, value in values.items() for word in (flag(name), text_of(value))]


def beside_settings(preset: str, num_envs: int) -> dict[str, Any]:
    """What the same training needs beside its settings, where that is not what it has anyway."""
    return {
        **({"preset": preset} if preset != "default" else {}),
        **({"num_envs": num_envs} if num_envs > 1 else {}),
    }


def text_of(value: Any) -> str:
    """A setting's value as it can be typed."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def environment_kwargs(pairs: Sequence[str]) -> dict[str, Any]:
    """``size=20 name=x`` as a dictionary: values are JSON where they can be, else text."""
    kwargs = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise SettingError(f"--env-kwargs takes key=value pairs, not {pair!r}.")
        try:
            kwargs[key] = json.loads(text.lower() if text in ("True", "False") else text)
        except json.JSONDecodeError:
            kwargs[key] = text
    return kwargs


def _metavar(setting: Setting) -> str:
    kinds = set(typing.get_args(setting.type)) or {setting.type}
    if setting.choices:
        return "{" + ",".join(setting.choices) + "}"
    if bool in kinds:
        return "{true,false}"
    return "X" if float in kinds else "N" if int in kinds else "NAME"
