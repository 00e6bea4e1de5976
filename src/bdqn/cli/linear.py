"""``bdqn linear``: the regret of linear agents on problems that know their own optimum."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bdqn.cli.common import correctable, on_one_line
from bdqn.cli.options import Parser, text_of
from bdqn.progress import Progress, progress
from bdqn.settings import SettingError, build, nearest, settings_of

if TYPE_CHECKING:
    import numpy as np

    from bdqn.linear import Curves, Replicas
    from bdqn.linear.mdps import Array
    from bdqn.linear.recipes import Settings
    from bdqn.report.regret import RegretCurves

T = TypeVar("T")


def run(argv: list[str]) -> int:
    """Play, print a table, and leave a CSV and a figure."""
    from bdqn.linear import AGENTS, FAMILIES

    parser = Parser(
        prog="bdqn linear",
        description="Regret of LinPSRL, LinUCB and others, exact by dynamic programming, with a band over seeds.",
        epilog=f"problems:\n{_listed(FAMILIES)}\n\nagents:\n{_listed(AGENTS)}\n\n"
        "example: bdqn linear --mdp linear-q:horizon=2 --agents linpsrl linucb linucb:radius=data,scale=0.1",
    )
    parser.add_argument(
        "--mdp", metavar="PROBLEM", default="linear-q", help="NAME or NAME:SETTING=VALUE,... [linear-q]"
    )
    parser.add_argument(
        "--agents", metavar="AGENT", nargs="+", default=["linpsrl", "linucb"], help="the same [linpsrl linucb]"
    )
    parser.add_argument("--episodes", type=int, default=2000, help="T [%(default)s]")
    parser.add_argument("--seeds", type=int, default=20, help="replicas, seeds 0 to N - 1 [%(default)s]")
    parser.add_argument("--instance", type=int, help="play this one instance with all seeds [one instance per seed]")
    parser.add_argument(
        "--out", metavar="DIR", default="out/linear", help="for regret.csv and regret.png [%(default)s]"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    args = parser.parse(argv)
    for name in ("episodes", "seeds"):
        if getattr(args, name) < 1:
            raise SettingError(f"--{name} must be at least 1, not {getattr(args, name)}.")

    import numpy as np

    from bdqn.linear import Replicas
    from bdqn.report.figures import save
    from bdqn.report.regret import regret_figure, write_regret
    from bdqn.seeding import generator

    with correctable():
        family = parse(args.mdp, FAMILIES, "problem")
        agents = {spec: parse(spec, AGENTS, "agent") for spec in args.agents}
        of_instance = [args.instance] * args.seeds if args.instance is not None else range(args.seeds)
        made = {seed: family.make(generator(seed, "problem")) for seed in sorted(set(of_instance))}
        replicas = Replicas.of([made[seed] for seed in of_instance])
    horizon = replicas.known.horizon
    total = args.episodes * args.seeds * horizon * len(agents)
    curves = []
    with progress(total, quiet=args.quiet) as display:
        for i, (spec, settings) in enumerate(agents.items()):
            reporter = _Reporter(display, total * i // len(agents), args.seeds * horizon)
            curves.append(_measure(spec, settings, replicas, args.episodes, reporter))
    rng = np.random.default_rng(0)
    _print_table(curves, rng)
    out = Path(args.out)
    with correctable():
        out.mkdir(parents=True, exist_ok=True)
        write_regret(out / "regret.csv", curves)
        title = f"{args.mdp}, {args.seeds} seeds, 95 % bands"
        save(regret_figure(curves, title, rng), out / "regret.png")
    print(f"\n{out}: regret.csv, regret.png")
    return 0


def parse(text: str, known: Mapping[str, type[T]], kind: str) -> T:
    """``name:setting=value,...`` as an instance of the class of that name."""
    name, _, rest = text.partition(":")
    if name not in known:
        raise SettingError(f"There is no {kind} {name!r}; {nearest(name, known)}")
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
    """Tells the display about decisions taken, not more often than it wants to hear."""

    def __init__(self, display: Progress, before: int, per_episode: int) -> None:
        self._display, self._before, self._per_episode = display, before, per_episode
        self._last = -float("inf")

    def __call__(self, episode: int, mean_return: float) -> None:
        now = time.monotonic()
        if now - self._last >= self._display.interval:
            self._last = now
            self._display.show(self._before + episode * self._per_episode, mean_return)


def _measure(spec: str, settings: Settings, replicas: Replicas, episodes: int, reporter: _Reporter) -> RegretCurves:
    import numpy as np

    from bdqn.linear import run
    from bdqn.report.regret import RegretCurves, grid_of

    with _notes(), correctable():
        agent = settings.make(replicas.known)
    curves: Curves = run(replicas, agent, episodes, range(len(replicas)), reporter)
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
    """The theorem that speaks of this agent, corrected; NaN if none does, or if rho was not measured. (R,)"""
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
        if isinstance(settings, LinPSRL) and known.horizon == 1:
            return np.asarray(theorem_1(constants, zero, episodes))
    return np.full(len(replicas), np.nan)


@contextmanager
def _notes() -> Iterator[None]:
    """Print warnings as one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        print(f"note: {on_one_line(warning.message)}")


def _print_table(curves: Sequence[RegretCurves], rng: np.random.Generator) -> None:
    from bdqn.report.regret import growth

    lines = [("agent", "regret", "grows as", "certificate", "bound")]
    for curve in curves:
        ends = [getattr(curve, name)[:, -1].mean() for name in ("regret", "certificate", "bound")]
        regret, certificate, bound = ("-" if end != end else f"{end:,.4g}" for end in ends)
        lines.append((curve.agent, regret, str(growth(curve.episode, curve.regret, rng)), certificate, bound))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _listed(classes: Mapping[str, type]) -> str:
    """Every class with the first line of its docstring, and its settings with their defaults."""
    lines = []
    for name, cls in classes.items():
        lines.append(f"  {name:<18}{(cls.__doc__ or '').splitlines()[0]}")
        lines += [
            f"      {key}={text_of(setting.default)}  {setting.help}" for key, setting in settings_of(cls).items()
        ]
    return "\n".join(lines)
