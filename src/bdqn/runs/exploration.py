"""Whether exploration is alive, in one line of the log; and a warning where it came to rest and had found nothing."""

from __future__ import annotations

from collections.abc import Mapping

from bdqn.runs.progress import Progress, format_return, notify

LINES = 10  # over a run
# Below these an agent does what its mean says, where it has been before. Solved problems end there, too.
FEW_DEPARTURES, LITTLE_NEW = 0.01, 0.01


def exploration_line(metrics: Mapping[str, float]) -> str | None:
    """Describe how an agent explores, by its latest metrics; None for agents without draws."""
    departs = metrics.get("explore/draw_departs", metrics.get("posterior/draw_differs"))
    if departs is None:
        return None
    novelty = metrics.get("posterior/novelty")
    parts = [f"draws depart from the mean in {departs:.0%} of states"]
    if novelty is not None:
        parts.append(f"{novelty:.1%} of recent observations is new")
    if "explore/bold_share" in metrics:
        kind = "bold" if metrics["explore/bold_share"] > 0.5 else "modest"
        returns = [
            f"{name} ones return {format_return(metrics[key])}"
            for name, key in (("bold", "explore/bold_return"), ("modest", "explore/modest_return"))
            if key in metrics
        ]
        parts.append(f"{kind} draws act" + (f" ({', '.join(returns)})" if returns else ""))
    state = "at rest" if departs < FEW_DEPARTURES and (novelty or 0.0) < LITTLE_NEW else "alive"
    return f"exploration is {state}: {'; '.join(parts)}"


def exploration_warning(metrics: Mapping[str, float]) -> str | None:
    """Say what to change if nothing looks new any more, and modest and bold draws have returned the same ever since."""
    names = ("posterior/novelty", "explore/draw_departs", "explore/segments")
    if any(name not in metrics for name in names):
        return None
    novelty, departs, segments = (metrics[name] for name in names)
    if novelty >= LITTLE_NEW or departs >= FEW_DEPARTURES or segments:
        return None
    return (
        "Exploration has come to rest, but all episodes return alike: nothing that the agent can tell apart is new. "
        "Let it see finer differences (half of prior_lengthscale, or more prior_features), check that observations "
        "show what the reward depends on, or allow longer episodes."
    )


class ExplorationLog:
    """Describes exploration a few times in a run, and warns at most once."""

    def __init__(self, steps: int, now: int) -> None:
        """``steps`` is the length of the run, of which ``now`` have been taken."""
        self._interval = max(1, steps // LINES)
        self._next = self._after(now)
        self._warned = False

    def report(self, now: int, metrics: Mapping[str, float], progress: Progress) -> None:
        """Report the latest metrics, if that is due."""
        if now < self._next:
            return
        self._next = self._after(now)
        if (line := exploration_line(metrics)) is not None:
            progress.log(f"After {now:,} steps, {line}")
        if not self._warned and (warning := exploration_warning(metrics)) is not None:
            notify(warning)
            self._warned = True

    def _after(self, now: int) -> int:
        return (now // self._interval + 1) * self._interval
