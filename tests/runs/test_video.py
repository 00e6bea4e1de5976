"""Videos of what an environment showed, read back with FFmpeg."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bdqn
from bdqn.cli import main
from bdqn.config.settings import SettingError
from bdqn.runs.playback import record
from bdqn.runs.video import Video
from support.cli import Train
from support.small import small

imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="needs imageio-ffmpeg, from the extra video")

# FFmpeg's pipes, which imageio-ffmpeg leaves to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def read(path: Path) -> tuple[dict, list[np.ndarray]]:
    frames = imageio_ffmpeg.read_frames(str(path))
    meta = next(frames)
    width, height = meta["size"]
    return meta, [np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in frames]


def test_watch_writes_a_video_beside_the_page(train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pygame", reason="needs pygame-ce, from the extra classic")
    folder, video = train("run"), tmp_path / "new" / "play.mp4"
    capsys.readouterr()
    arguments = ["watch", str(folder), "--out", str(tmp_path / "w.html"), "--video", str(video), "--max-steps", "12"]
    assert main(arguments) == 0
    assert f"{video}: " in capsys.readouterr().out
    meta, frames = read(video)
    assert meta["codec"] == "h264"
    assert meta["fps"] == 50  # CartPole's own
    assert frames[0].shape == (400, 600, 3)
    assert 8 <= len(frames) <= 12
    assert (tmp_path / "w.html").exists()
    assert not list(video.parent.glob(".*"))


def test_a_grid_is_filmed_large_enough_to_see(tmp_path: Path) -> None:
    learner = small("ddqn", "MinAtar/Breakout-v1")
    with Video(tmp_path / "v.mp4", 10) as video:
        recording = record(learner, max_steps=5, film=video.add)
    _, frames = read(tmp_path / "v.mp4")
    assert len(frames) == len(recording.action) == 5
    assert min(frames[0].shape[:2]) >= 240


def test_what_shows_no_picture_cannot_be_filmed(tmp_path: Path) -> None:
    import gymnasium as gym

    learner = bdqn.make("ddqn", lambda: gym.make("CartPole-v1"), buffer_size=100)
    with pytest.raises(ValueError, match="shows no pictures to film"), Video(tmp_path / "v.mp4", 10) as video:
        record(learner, max_steps=5, film=video.add)
    assert not list(tmp_path.iterdir())


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"--video writes MP4: name the file v\.mp4"):
        Video(tmp_path / "v.gif", 10)


def film(video: Video) -> None:
    for width in (301, 303):
        video.add(np.zeros((300, width, 3), np.uint8))


def test_an_unfinished_video_does_not_replace_one(tmp_path: Path) -> None:
    (tmp_path / "v.mp4").write_text("earlier")
    with pytest.raises(ValueError, match="change their size"), Video(tmp_path / "v.mp4", 10) as video:
        film(video)
    assert (tmp_path / "v.mp4").read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["v.mp4"]
