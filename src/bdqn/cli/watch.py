"""``bdqn watch``: see an agent play, and what it believes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bdqn.cli.common import correctable, load_to_play, say
from bdqn.cli.options import Parser, add_settings, given
from bdqn.config.settings import build, setting, settings_of


@dataclass(frozen=True)
class Options:
    """What to play."""

    max_steps: int = setting(500, "decisions to show at most", minimum=1, maximum=20_000)
    episodes: int = setting(1, "episodes to show", minimum=1)
    seed: int = setting(0, "seed of the episode, apart from the training's", minimum=0)
    env: str | None = setting(None, "the environment again, where its name imports a module (module:Name-v0)")


def run(argv: list[str]) -> int:
    """Load an agent, let it play, write the page."""
    parser = Parser(
        prog="bdqn watch",
        description="Write one self-contained page that plays an episode beside the agent's belief about every action.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's directory, one of its checkpoints, or a saved agent")
    parser.add_argument("--out", metavar="FILE", default="watch.html", help="the page [%(default)s]")
    known = settings_of(Options)
    add_settings(parser, known, vars(Options()))
    parser.add_argument("--greedy", action="store_true", help="follow the mean instead of acting as in training")
    parser.add_argument("--best", action="store_true", help="the run's best checkpoint instead of the newest")
    args = parser.parse(argv)
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures are drawn without a screen, and nobody need miss one
    out = Path(args.out).absolute()  # an environment may change the directory it works in
    options = build(Options, given(args, known))

    from bdqn.report.watch import watch_page
    from bdqn.runs.playback import record

    with correctable():
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
        out.write_text(html, encoding="utf-8")
    say(f"{args.out}: {recording.facts['shown']}; {len(html) / 1e3:,.0f} kB")
    return 0
