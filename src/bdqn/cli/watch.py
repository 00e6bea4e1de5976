"""``bdqn watch``: an HTML page that shows an agent playing, and its beliefs."""

from __future__ import annotations

import os
from contextlib import ExitStack
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
    fps: float | None = setting(
        None, "decisions per second of the video; unset: the environment's own render_fps, or 15", minimum=0.1
    )
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
    parser.add_argument("--video", metavar="FILE.mp4", help="also write what the environment shows as a video")
    parser.add_argument("--greedy", action="store_true", help="act greedily on the mean instead of as in training")
    parser.add_argument("--best", action="store_true", help="use the run's best checkpoint instead of the newest")
    args = parser.parse(argv)
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # render without a display
    out = Path(args.out).absolute()  # an environment may change the working directory
    options = build(Options, given(args, known))

    video_path = None if args.video is None else Path(args.video).absolute()

    from bdqn.report.watch import watch_page
    from bdqn.runs.playback import record
    from bdqn.runs.video import Video

    with user_errors(), ExitStack() as files:
        learner = load_to_play(Path(args.run), options.env, best=args.best)
        fps = options.fps or learner.envs.envs[0].metadata.get("render_fps") or 15
        video = None if video_path is None else files.enter_context(Video(video_path, fps))
        recording = record(
            learner,
            max_steps=options.max_steps,
            episodes=options.episodes,
            greedy=args.greedy,
            seed=options.seed,
            film=None if video is None else video.add,
        )
        html = watch_page(recording)
        out.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_output(out, html)
    say(f"{args.out}: {recording.facts['shown']}; {len(html) / 1e3:,.0f} kB")
    if video is not None:
        say(f"{args.video}: {video.frames:,} frames at {fps:g} per second")
    return 0
