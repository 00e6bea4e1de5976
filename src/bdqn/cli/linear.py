"""``bdqn linear``: the regret of linear agents on problems with a known optimum."""

from __future__ import annotations

import re
import shlex
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bdqn.cli.common import user_errors
from bdqn.cli.layout import listed, print_folded, table
from bdqn.cli.options import Parser, text_of
from bdqn.config.settings import SettingError, build, nearest, settings_of
from bdqn.runs.progress import Progress, progress
from bdqn.storage import atomic
from bdqn.storage.safe_files import printable

if TYPE_CHECKING:
    from bdqn.linear import Curves, Replicas
    from bdqn.linear.mdps import Array
    from bdqn.linear.recipes import Settings
    from bdqn.report.regret import RegretCurves

T = TypeVar("T")
Report = Callable[[int, float], None]  # takes an episode's number and its mean return
COMMAND = "command.txt"


# Descriptions of the table's columns; a missing value is "-".
COLUMNS = {
    "regret": "exact loss against the optimal policy over T episodes; mean over seeds",
    "grows as": "exponent of T at which regret grows, with its 95 % interval over seeds; 1 means no learning",
    "certificate": "upper bound on the regret that linucb computes while it plays: the summed widths of its confidence "
    "sets, valid if these contain the truth (with probability 1 - delta, unless scale < 1 or radius=paper)",
    "bound": "bound of a theorem for any such problem: the corrected Theorem 2 for linucb with its default scale and "
    "radius, Theorem 1 for linpsrl without inflation and with one step per episode (docs/theory.md)",
}


def run(argv: list[str]) -> int:
    """Play, print a table, and write a CSV file and a figure."""
    from bdqn.linear import AGENTS, FAMILIES

    sections = {"problems": _explained(FAMILIES), "agents": _explained(AGENTS), "columns printed": listed(COLUMNS)}
    parser = Parser(
        prog="bdqn linear",
        description="Exact regret of LinPSRL, LinUCB and others, by dynamic programming, with bands over seeds.",
        epilog="\n".join(line for title, lines in sections.items() for line in (f"{title}:", *lines, ""))
        + "\nexample: bdqn linear --agents linpsrl linucb:radius=data,scale=0.1",
    )
    parser.add_argument(
        "--mdp", metavar="PROBLEM", default="linear-q", help="NAME or NAME:SETTING=VALUE,... [linear-q]"
    )
    parser.add_argument(
        "--agents",
        metavar="AGENT",
        nargs="+",
        default=["linpsrl", "linucb"],
        help="in the same format [linpsrl linucb]",
    )
    parser.add_argument("--episodes", metavar="N", type=int, default=2000, help="episodes per run (T) [%(default)s]")
    parser.add_argument(
        "--seeds", metavar="N", type=int, default=20, help="number of runs, with seeds 0 to N - 1 [%(default)s]"
    )
    parser.add_argument(
        "--instance",
        metavar="N",
        type=int,
        help="play this instance of the problem with all seeds [one instance per seed]",
    )
    parser.add_argument("--out", metavar="DIR", help="where to write regret.csv and regret.png [out/linear/PROBLEM]")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    args = parser.parse(argv)
    for name in ("episodes", "seeds"):
        if getattr(args, name) < 1:
            raise SettingError(f"--{name} must be at least 1, not {getattr(args, name)}.")

    import numpy as np

    from bdqn.config.seeding import generator
    from bdqn.linear import Replicas
    from bdqn.report.figures import save
    from bdqn.report.regret import regret_figure, write_regret

    with user_errors():
        family = parse(args.mdp, FAMILIES, "problem")
        agents = {spec: parse(spec, AGENTS, "agent") for spec in args.agents}
        out = Path(args.out or f"out/linear/{re.sub('[:,]', '-', args.mdp)}")
        command = _command(args)
        _refuse_to_overwrite(out, command)
        of_instance = [args.instance] * args.seeds if args.instance is not None else range(args.seeds)
        made = {seed: family.make(generator(seed, "problem")) for seed in sorted(set(of_instance))}
        replicas = Replicas.of([made[seed] for seed in of_instance])
    per_episode = args.seeds * replicas.known.horizon
    total = args.episodes * len(agents) * per_episode
    curves = []
    with progress(total, quiet=args.quiet) as display:
        reporter = _Reporter(display, total, per_episode)
        for i, (spec, settings) in enumerate(agents.items()):
            curves.append(_measure(spec, settings, replicas, args.episodes, reporter.after(i * args.episodes)))
    _print_table(curves)
    with user_errors():
        out.mkdir(parents=True, exist_ok=True)
        atomic.write_file(out / COMMAND, f"{command}\n".encode())
        write_regret(out / "regret.csv", curves)
        title = f"{args.mdp}, {args.seeds} seeds, 95 % bands"
        save(regret_figure(curves, title, np.random.default_rng(0)), out / "regret.png")
    print(f"\n{out}: regret.csv, regret.png, {COMMAND}")
    return 0


def _command(args: Namespace) -> str:
    """Return the command with only what determines the results: equal commands give equal bytes."""
    words = ["bdqn", "linear", "--mdp", args.mdp, "--agents", *args.agents]
    words += ["--episodes", str(args.episodes), "--seeds", str(args.seeds)]
    words += [] if args.instance is None else ["--instance", str(args.instance)]
    return shlex.join(words)


def _refuse_to_overwrite(out: Path, command: str) -> None:
    """Refuse to overwrite results of another command."""
    if not (out / "regret.csv").exists():
        return
    note = out / COMMAND
    earlier = note.read_text(encoding="utf-8").strip() if note.is_file() else "an unknown command"
    if earlier != command:
        raise SettingError(f"{out} holds the results of {earlier}: choose another directory with --out, or remove it.")


def parse(text: str, known: Mapping[str, type[T]], kind: str) -> T:
    """Parse ``name:setting=value,...`` to an instance of the class of that name."""
    name, _, rest = text.partition(":")
    if name not in known:
        raise SettingError(f"Unknown {kind} {name!r}; {nearest(name, known)}")
    settings = settings_of(known[name])
    values = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise SettingError(f"{kind} {name} takes setting=value, not {pair!r}.")
        if key not in settings:
            raise SettingError(f"{kind} {name} has no setting {key!r}; {nearest(key, settings)}")
        values[key] = settings[key].parse(value)
    return build(known[name], values)


class _Reporter:
    """Updates the display, at most once per interval, and for the last decision."""

    def __init__(self, display: Progress, total: int, per_episode: int) -> None:
        self._display, self._total, self._per_episode = display, total, per_episode
        self._last = -float("inf")

    def after(self, played: int) -> Report:
        """Return a callback for an agent's episodes, after ``played`` episodes of other agents."""
        return lambda episode, mean_return: self._show((played + episode) * self._per_episode, mean_return)

    def _show(self, decisions: int, mean_return: float) -> None:
        now = time.monotonic()
        if now - self._last >= self._display.interval or decisions == self._total:
            self._last = now
            self._display.show(decisions, mean_return)


def _measure(spec: str, settings: Settings, replicas: Replicas, episodes: int, report: Report) -> RegretCurves:
    import numpy as np

    from bdqn.linear import run
    from bdqn.report.regret import RegretCurves, grid_of

    with _notes(), user_errors():
        agent = settings.make(replicas.known)
    curves: Curves = run(replicas, agent, episodes, range(len(replicas)), report)
    grid = grid_of(episodes)
    nothing = np.full((len(replicas), len(grid)), np.nan)
    return RegretCurves(
        spec,
        tuple(range(len(replicas))),
        grid.astype(np.float64),
        curves.exact.cumsum(1)[:, grid - 1],
        curves.trajectory.cumsum(1)[:, grid - 1],
        nothing if curves.certificate is None else curves.certificate.cumsum(1)[:, grid - 1],
        np.array([_bound(settings, agent, replicas, int(t)) for t in grid]).T,
    )


def _bound(settings: object, agent: object, replicas: Replicas, episodes: int) -> Array:
    """Return the corrected theorem's bound for this agent; NaN if none applies or rho was not measured. (R,)"""
    import numpy as np

    from bdqn.linear import LinPSRL, LinUCB
    from bdqn.linear.agents import LinearAgent
    from bdqn.linear.bounds import Constants, theorem_1, theorem_2

    known = replicas.known
    zero = np.zeros((len(replicas), known.horizon))  # rho^1 is never used
    if isinstance(agent, LinearAgent):
        constants = Constants.of(known, agent.prior.ridge)
        if isinstance(settings, LinUCB) and settings.scale == 1 and (settings.radius == "theory" or known.horizon == 1):
            rho = zero if agent.confidence is None else agent.confidence.largest_rho
            return np.asarray(theorem_2(constants, rho, episodes, settings.delta))
        if isinstance(settings, LinPSRL) and settings.inflation == "1" and known.horizon == 1:
            return np.asarray(theorem_1(constants, zero, episodes))
    return np.full(len(replicas), np.nan)


@contextmanager
def _notes() -> Iterator[None]:
    """Print each warning in the block on one line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        print(f"note: {printable(warning.message)}")


def _print_table(curves: Sequence[RegretCurves]) -> None:
    lines = [("agent", *COLUMNS)]
    for curve in curves:
        ends = [getattr(curve, name)[:, -1].mean() for name in ("regret", "certificate", "bound")]
        regret, certificate, bound = ("-" if end != end else f"{end:,.4g}" for end in ends)
        lines.append((curve.agent, regret, str(curve.growth), certificate, bound))
    print("\n".join(table(lines)), end="\n\n")
    print_folded(listed(COLUMNS, indent=0))


def _explained(classes: Mapping[str, type]) -> list[str]:
    """Describe every class by the first line of its docstring, and its settings with their defaults."""
    titles = listed({name: (cls.__doc__ or "").splitlines()[0] for name, cls in classes.items()})
    lines = []
    for title, cls in zip(titles, classes.values(), strict=True):
        settings = {f"{key}={text_of(setting.default)}": setting.help for key, setting in settings_of(cls).items()}
        lines += [title, *listed(settings, indent=6)]
    return lines
