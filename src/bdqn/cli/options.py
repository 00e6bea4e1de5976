"""Command-line flags from settings, with errors that suggest what was meant."""

from __future__ import annotations

import argparse
import json
import re
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never

from bdqn.cli.layout import fold
from bdqn.config.settings import Setting, SettingError, nearest

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# Arguments that are paths.
PATHS = {"out", "source", "to", "tables", "figures", "run", "runs", "path", "sweeps", "file", "search"} | {
    "video",
    "onnx",
    "torch",
}
NO_BREAK = "\N{NO-BREAK SPACE}"


class Parser(argparse.ArgumentParser):
    """An argument parser that raises SettingError and suggests flags for unknown ones."""

    def __init__(self, **options: Any) -> None:
        # With abbreviations, a flag's meaning would depend on which other flags exist.
        super().__init__(allow_abbrev=False, formatter_class=_Formatter, **options)

    def error(self, message: str) -> Never:
        raise SettingError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Print without argparse's silent handling of output errors."""
        print(message, end="", file=file)

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse all arguments."""
        namespace, unknown = self.parse_known_args(argv)
        if unknown:
            self.refuse(unknown[0])
        for action in self._actions:  # such as "$OUT" in a script that does not set OUT
            value = getattr(namespace, action.dest, None)
            if action.dest in PATHS and ("" in value if isinstance(value, list) else value == ""):
                name = action.option_strings[0] if action.option_strings else str(action.metavar)
                raise SettingError(f"{name} is empty: it must be a path.")
        return namespace

    def refuse(self, argument: str) -> Never:
        """Raise SettingError for an unknown argument, with a suggestion."""
        if not argument.startswith("-"):
            self.error(f"unexpected argument {argument!r}")
        flag = argument.partition("=")[0]
        raise SettingError(f"{self.prog} has no flag {flag}; {nearest(flag, self._option_string_actions)}")


class _Formatter(argparse.HelpFormatter):
    """Keeps line breaks of descriptions, aligns help texts and never breaks words."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return fold(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(part for line in text.splitlines() for part in fold(indent + line, width))

    def _format_usage(self, usage: str | None, *rest: Any) -> str:
        """Wrap explicit usage strings, which argparse does not."""
        formatted = super()._format_usage(usage, *rest)
        if usage is None:
            return formatted
        whole = re.sub(r"\[.*?\]", lambda option: option[0].replace(" ", NO_BREAK), formatted)
        hang = len(f"usage: {self._prog} ")
        lines = [part for line in whole.splitlines() for part in fold(line, self._width, hang)]
        return "\n".join(lines).replace(NO_BREAK, " ") + "\n\n"


def flag(name: str) -> str:
    """Return a setting's flag."""
    return f"--{name.replace('_', '-')}"


def add_settings(
    group: argparse._ActionsContainer,
    settings: Mapping[str, Setting],
    values: Mapping[str, Any] | None = None,
) -> None:
    """Add a flag for every setting, parsed later by `given`. ``values`` are shown as defaults."""
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


def add_loggers(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name a run's loggers."""
    parser.add_argument(
        "--log", metavar="NAME[,NAME]", default="", help="also log to tensorboard, wandb or mlflow, or to several"
    )
    parser.add_argument("--tensorboard", action="store_true", help="the same as --log tensorboard")


def given(namespace: argparse.Namespace, settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Parse the settings that the user gave."""
    texts = vars(namespace)
    return {name: setting.parse(texts[name]) for name, setting in settings.items() if name in texts}


def flags(values: Mapping[str, Any]) -> list[str]:
    """Return the command-line words that set these values."""
    return [word for name, value in values.items() for word in (flag(name), text_of(value))]


def other_options(preset: str, num_envs: int) -> dict[str, Any]:
    """Return the preset and the number of environments, if they are not the defaults."""
    return {
        **({"preset": preset} if preset != "default" else {}),
        **({"num_envs": num_envs} if num_envs > 1 else {}),
    }


def text_of(value: Any) -> str:
    """Format a setting's value as users type it."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def environment_kwargs(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse ``size=20 name=x`` to a dictionary. Values are JSON if possible, otherwise strings."""
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
