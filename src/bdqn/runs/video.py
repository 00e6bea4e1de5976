"""A video file of what an environment showed."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from bdqn.config.extras import missing
from bdqn.config.settings import SettingError
from bdqn.runs.recording import Picture
from bdqn.storage.atomic import TEMPORARY

SHORTEST_SIDE = 240  # pixels: the pictures of small grids are enlarged


class Video:
    """Writes pictures to an MP4 (H.264), as they come. The file has its name only once it is complete."""

    def __init__(self, path: Path, frames_per_second: float) -> None:
        if path.suffix != ".mp4":
            raise SettingError(f"--video writes MP4: name the file {path.with_suffix('.mp4').name}.")
        try:
            import imageio_ffmpeg
        except ImportError as error:
            raise SettingError(missing("--video", "video", error)) from error
        self._path, self._fps, self._ffmpeg = path, frames_per_second, imageio_ffmpeg
        self._unfinished = path.with_name(f"{TEMPORARY}{path.name}")
        self._writer: Generator[None, Any, None] | None = None
        self._shape: tuple[int, ...] = ()
        self.frames = 0

    def add(self, picture: Picture) -> None:
        """One picture more, of the size of the first."""
        factor = -(-SHORTEST_SIDE // min(picture.shape[:2]))
        large = picture.repeat(factor, 0).repeat(factor, 1)
        large = np.pad(large, ((0, large.shape[0] % 2), (0, large.shape[1] % 2), (0, 0)), mode="edge")  # H.264's wish
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._shape = large.shape
            size, options = (large.shape[1], large.shape[0]), {"fps": self._fps, "macro_block_size": 2}
            self._writer = self._ffmpeg.write_frames(str(self._unfinished), size, ffmpeg_log_level="error", **options)
            self._writer.send(None)
        if large.shape != self._shape:
            raise ValueError(f"The environment's pictures change their size, from {self._shape} to {large.shape}.")
        self._writer.send(np.ascontiguousarray(large))
        self.frames += 1

    def __enter__(self) -> Video:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
        if kind is None and self.frames:
            os.replace(self._unfinished, self._path)
        else:
            self._unfinished.unlink(missing_ok=True)
