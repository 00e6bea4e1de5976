"""Fill docs/performance.md from benchmarks/results: the tables between its markers, and its plots.

.venv/bin/python benchmarks/page.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev

from matplotlib.figure import Figure

from bdqn.report.figures import COLORS, name_axes, save
from measure import Spread, exponent, ratio, read_rows
from work import OURS, REFERENCE

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"
# Speed of our Double DQN relative to the reference, by environment and number of environments.
TRAINING_TARGETS = {
    ("ALE/Pong-v5", 1): 1.3,
    ("ALE/Pong-v5", 8): 1.3,
    ("CartPole-v1", 1): 1.8,
    ("CartPole-v1", 8): 1.5,
    ("MinAtar/Breakout-v1", 1): 1.8,
    ("MinAtar/Breakout-v1", 8): 1.5,
}
LOOP_TARGETS = {"ALE/Pong-v5": 1.10, "CartPole-v1": 1.15, "MinAtar/Breakout-v1": 1.15}
Named = dict[tuple[str, int], dict[str, list[float]]]  # by environment and number of environments, then by name


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def verdict(met: bool) -> str:
    return "met" if met else "**missed**"


# --- measurements ------------------------------------------------------------------------------------------


def by_work(file: str, name: str, value: str) -> Named:
    """Values of all rounds, by workload and name."""
    found: Named = {}
    for row in read_rows(file):
        work = found.setdefault((row["env"], int(row["num_envs"])), {})
        work.setdefault(row[name], []).append(float(row[value]))
    return found


def training() -> Named:
    """Decisions per second, by contestant."""
    return by_work("training", "contestant", "per_second")


def loop() -> Named:
    """Microseconds per decision, by part."""
    return by_work("loop", "part", "microseconds")


def refit() -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in read_rows("refit"):
        found.setdefault(row["what"], []).append(float(row["value"]))
    return found


# --- tables -------------------------------------------------------------------------------------------------


def training_table() -> str:
    rows = []
    for (env, num_envs), contestants in training().items():
        for name, rates in contestants.items():
            times = ratio(rates, contestants[REFERENCE])
            target = TRAINING_TARGETS[env, num_envs] if name == OURS else None
            cell = "" if target is None else f"{target}: {verdict(times.median >= target)}"
            shown = "1" if name == REFERENCE else times
            rows.append((env, num_envs, name, f"{Spread.of(rates).median:,.0f}", shown, cell))
    return table(("environment", "N", "contestant", "decisions/s", f"times {REFERENCE}", "target"), rows)


def loop_table() -> str:
    rows = []
    for (env, num_envs), parts in loop().items():
        names = ("update", "acting forward", "environments", "in turn", "loop")
        shown = [f"{Spread.of(parts[name]).median:,.0f}" for name in names]
        times = ratio(parts["loop"], parts["parts"])
        target = LOOP_TARGETS[env]
        rows.append((env, num_envs, *shown, times, f"{target:.2f}: {verdict(times.median <= target)}"))
    header = (
        *("environment", "N", "update", "acting forward", "environment", "these in turn", "our loop"),
        *("loop / sum of parts", "target"),
    )
    return table(header, rows)


def clock_table() -> str:
    rows = [[row["env"], *(f"{float(row[key]):,.0f}" for key in row if key != "env")] for row in read_rows("clock")]
    return table(("environment", *(key for key in read_rows("clock")[0] if key != "env")), rows)


def arithmetic_table() -> str:
    names = {"matrix product": "matrix product, 1,024 x 1,024", "both": "forward and backward"}
    rows = [(row["threads"], names.get(row["what"], row["what"]), row["gflops"]) for row in read_rows("arithmetic")]
    return table(("threads", "what", "GFLOP/s"), rows)


def refit_table() -> str:
    values = refit()
    over_floor, over_ddqn = ratio(values["refit"], values["forward"]), Spread.of(values["bdqn over ddqn"])
    return table(
        ("figure", "measured", "target"),
        [
            ("refit of B = 100,000, d = 512, 6 actions", f"{Spread.of(values['refit'])} s", ""),
            ("its two forward passes alone", f"{Spread.of(values['forward'])} s", ""),
            ("refit / forward passes", over_floor, f"1.15: {verdict(over_floor.median <= 1.15)}"),
            ("100,000 decisions with one refit / Double DQN", over_ddqn, f"1.05: {verdict(over_ddqn.median <= 1.05)}"),
        ],
    )


def growth_table() -> str:
    rows = []
    columns = {"B": "batch", "d": "features", "actions": "actions"}
    for name, column in columns.items():
        mine = [row for row in read_rows("refit_growth") if row["grows"] == name]
        sizes, times = [int(row[column]) for row in mine], [float(row["seconds"]) for row in mine]
        fixed = ", ".join(f"{other} = {int(mine[0][c]):,}" for other, c in columns.items() if other != name)
        measured = ", ".join(f"{size:,}: {1e3 * time:,.0f}" for size, time in zip(sizes, times, strict=True))
        rows.append((name, fixed, measured, f"{exponent(sizes, times):.2f}"))
    return table(("grows", "fixed", "milliseconds", "exponent"), rows)


def accounting_table() -> str:
    names = {"dqn": "DQN", "ddqn": "Double DQN", "bdqn": "Bayesian DQN"}
    rows = []
    for row in read_rows("accounting"):
        counts = [f"{int(row[key]):,}" for key in row if key != "agent"]
        rows.append((names[row["agent"]], *counts))
    header = ("agent", "acting forward", "update forward", "update backward", "seen by the last layer", "refit forward")
    return table(header, rows)


def bfloat16_table() -> str:
    """Mean return over five seeds during training, with a 95 % interval of Student's t for float32."""
    curves: dict[str, dict[int, list[float]]] = {}
    for row in read_rows("bfloat16"):
        points = curves.setdefault(row["precision"], {})
        points.setdefault(int(row["step"]), []).append(float(row["mean_return"]))
    rows = []
    for step, single in curves["float32"].items():
        half = curves["bfloat16"][step]
        reach = 2.776 * stdev(single) / len(single) ** 0.5  # four degrees of freedom
        low, high = mean(single) - reach, mean(single) + reach
        inside = "yes" if low <= mean(half) <= high else "**no**"
        rows.append((f"{step:,}", f"{mean(single):.2f} ({low:.2f} to {high:.2f})", f"{mean(half):.2f}", inside))
    return table(("decisions", "float32", "bfloat16", "within the interval"), rows)


def replay_table() -> str:
    values = {row["figure"]: float(row["value"]) for row in read_rows("replay")}
    gigabytes = values["resident bytes"] / values["frames"] * 1e6 / 1e9
    sample, update = values["sample of 32, ms"], values["update, ms"]
    per_frame, time = values["packed: bytes per frame of Pong"], values["packed: time of training"]
    return table(
        ("figure", "measured", "target"),
        [
            ("a million Atari frames, resident", f"{gigabytes:.2f} GB", f"7.5 GB: {verdict(gigabytes <= 7.5)}"),
            ("a sample of 32", f"{sample:.2f} ms, {100 * sample / update:.1f} % of an update", ""),
            ("`pack_frames`: a frame of Pong", f"{per_frame:.0f} bytes of 7,056", ""),
            ("`pack_frames`: training takes", f"{time:.2f} times as long", ""),
        ],
    )


def startup_table() -> str:
    times: dict[str, list[float]] = {}
    for row in read_rows("startup"):
        times.setdefault(row["what"], []).append(float(row["seconds"]))
    rows = []
    for name, values in times.items():
        spread = Spread.of(values)
        target = f"0.5 s: {verdict(spread.median <= 0.5)}" if name in ("bdqn --help", "import bdqn") else ""
        rows.append(
            (f"`{name}`" if "," not in name else f"`{name.split(',')[0]}`,{name.split(',')[1]}", f"{spread} s", target)
        )
    return table(("what", "seconds", "target"), rows)


def machine_table() -> str:
    return table(("", ""), [(row["fact"], row["value"]) for row in read_rows("machine")])


TABLES: dict[str, Callable[[], str]] = {
    "training": training_table,
    "loop": loop_table,
    "clock": clock_table,
    "arithmetic": arithmetic_table,
    "refit": refit_table,
    "growth": growth_table,
    "accounting": accounting_table,
    "bfloat16": bfloat16_table,
    "replay": replay_table,
    "startup": startup_table,
    "machine": machine_table,
}


def filled(text: str) -> str:
    """The page with all tables regenerated."""
    for name, make in TABLES.items():
        text, count = re.subn(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)",
            lambda m, make=make: f"{m[1]}{make()}\n{m[2]}",
            text,
            flags=re.DOTALL,
        )
        assert count == 1, f"docs/performance.md has {count} places for the table {name}."
    return text


# --- plots --------------------------------------------------------------------------------------------------


def plot_training(path: Path) -> None:
    works = training()
    figure = Figure(figsize=(2.3 * len(works), 3.6), layout="constrained")
    axes = figure.subplots(1, len(works), sharey=True)
    names = sorted(
        {name for contestants in works.values() for name in contestants}, key=lambda n: (n.startswith("bdqn"), n)
    )
    for axis, ((env, num_envs), contestants) in zip(axes, works.items(), strict=True):
        for y, name in enumerate(names):
            if name not in contestants:
                continue
            times = ratio(contestants[name], contestants[REFERENCE])
            axis.barh(y, times.median, color=COLORS[0] if name.startswith("bdqn") else "0.6")
            axis.plot([times.low, times.high], [y, y], color="0.15", linewidth=1.2)
        axis.axvline(TRAINING_TARGETS[env, num_envs], color=COLORS[1], linestyle=":", linewidth=1.2)
        axis.set_title(f"{env.split('/')[-1]}, N = {num_envs}", fontsize=9)
        axis.set_yticks(range(len(names)), names, fontsize=8)
        axis.tick_params(axis="x", labelsize=8)
        name_axes(axis)
    figure.supxlabel(
        "decisions per second, times Stable-Baselines3 DQN (line: all rounds; dots: our target)", fontsize=9
    )
    save(figure, path)


def plot_loop(path: Path) -> None:
    works = loop()
    figure = Figure(figsize=(2.1 * len(works), 3.4), layout="constrained")
    axes = figure.subplots(1, len(works))
    colors = dict(zip(("update", "acting forward", "environments"), COLORS, strict=False))
    for axis, ((env, num_envs), parts) in zip(axes, works.items(), strict=True):
        bottom = 0.0
        for name, color in colors.items():
            height = Spread.of(parts[name]).median
            axis.bar(0, height, bottom=bottom, color=color, label=name)
            bottom += height
        axis.bar(1, Spread.of(parts["in turn"]).median, color="0.7")
        axis.bar(2, Spread.of(parts["loop"]).median, color="0.4")
        axis.set_xticks([0, 1, 2], ["alone", "in turn", "our loop"], fontsize=8)
        axis.set_title(f"{env.split('/')[-1]}, N = {num_envs}", fontsize=9)
        axis.tick_params(axis="y", labelsize=8)
        name_axes(axis)
    axes[0].set_ylabel("microseconds per decision", fontsize=9)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    save(figure, path)


def plot_growth(path: Path) -> None:
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for axis, (name, column) in zip(axes, {"B": "batch", "d": "features", "actions": "actions"}.items(), strict=True):
        mine = [row for row in read_rows("refit_growth") if row["grows"] == name]
        sizes = [int(row[column]) for row in mine]
        axis.loglog(sizes, [float(row["seconds"]) for row in mine], "o-", color=COLORS[0])
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=7, rotation=45)
        axis.minorticks_off()
        axis.set_xlabel({"B": "B, transitions", "d": "d, features", "actions": "actions"}[name])
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds of a refit")
    save(figure, path)


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text()))
    images = DOCS / "images"
    plot_training(images / "performance-training.png")
    plot_loop(images / "performance-loop.png")
    plot_growth(images / "performance-refit.png")
    print(f"{PAGE} and its plots are up to date.")


if __name__ == "__main__":
    main()
