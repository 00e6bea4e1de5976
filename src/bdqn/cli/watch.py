"""``bdqn watch``: an HTML page that shows an agent playing, and its beliefs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bdqn.cli.common import load_to_play, say, user_errors
from bdqn.cli.options import Parser, add_settings, given
from bdqn.config.settings import build, setting, settings_of
from bdqn.storage import atomic


@dataclass(frozen=True)
class Options:
    """Options of ``bdqn watch``."""

    max_steps: int = setting(500, "maximum number of decisions to show", minimum=1, maximum=20_000)
    episodes: int = setting(1, "episodes to show", minimum=1)
    seed: int = setting(0, "seed of the episode, independent of training", minimum=0)
    env: str | None = setting(None, "the environment again, if its id imports a module (module:Name-v0)")


def run(argv: list[str]) -> int:
    """Load an agent, play and write the page."""
    parser = Parser(
        prog="bdqn watch",
        description="Write a self-contained HTML page that plays an episode beside the agent's beliefs.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's directory, one of its checkpoints, or a saved agent")
    parser.add_argument("--out", metavar="FILE", default="watch.html", help="the HTML file [%(default)s]")
    known = settings_of(Options)
    add_settings(parser, known, vars(Options()))
    parser.add_argument("--greedy", action="store_true", help="act greedily on the mean instead of as in training")
    parser.add_argument("--best", action="store_true", help="use the run's best checkpoint instead of the newest")
    args = parser.parse(argv)
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # render without a display
    out = Path(args.out).absolute()  # an environment may change the working directory
    options = build(Options, given(args, known))

    from bdqn.report.watch import watch_page
    from bdqn.runs.playback import record

    with user_errors():
        learner = load_to_play(Path(args.run), options.env, best=args.best)
        recording = record(
            learner,
            max_steps=options.max_steps,
            episodes=options.episodes,
            greedy=args.greedy,
            seed=options.seed,
        )
        html = watch_page(recording)
        out.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_output(out, html)
    say(f"{args.out}: {recording.facts['shown']}; {len(html) / 1e3:,.0f} kB")
    return 0
