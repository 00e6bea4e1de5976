"""The replay buffer on disk. Frames that are complete never change, so each is written once.

Frames are numbered from each environment's first. A complete range of frames becomes a segment: one safetensors file,
named after its content. A checkpoint lists the segments that the ring buffer still needs and holds the short tail that
is in no segment yet. Its cost grows with the number of new frames, not with the size of the buffer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from bdqn.qlearning.finite_checks import check_records
from bdqn.replay.buffer import Records, Replay
from bdqn.storage import atomic, checkpoint_files
from bdqn.storage.checkpoint_files import CheckpointError, Entry, Segment
from bdqn.storage.state_files import read_arrays

SEGMENT_NAME = re.compile(r"(\.tmp-|damaged-)?env\d+-\d{12,}-[0-9a-f]{16}\.safetensors")
SEGMENT_BYTES = 16 << 20  # over all environments; also the maximum size of a tail


class ReplayFiles:
    """Writes a replay buffer to a directory of segments as it fills."""

    def __init__(self, folder: Path, replay: Replay, sealed: Sequence[Segment] = ()) -> None:
        self.folder = folder
        self._replay = replay
        self._sealed = list(sealed)
        per_frame = sum(kind.itemsize * int(np.prod(shape)) for kind, shape in replay.record_layout().values())
        self._frames = max(1, min(SEGMENT_BYTES // (per_frame * replay.num_envs), replay.slots // 4))
        self._next = [0] * replay.num_envs  # the first frame that is in no segment
        for segment in sealed:
            self._next[segment.env] = max(self._next[segment.env], segment.start + segment.frames)

    def seal(self) -> bool:
        """Write all complete segments. Returns whether there were any. A failed write is retried next time."""
        before = list(self._next)
        for env in range(self._replay.num_envs):
            current = int(self._replay.written[env]) - 1  # incomplete: its action has not been taken
            while (stop := (self._next[env] // self._frames + 1) * self._frames) <= current:
                start = max(self._next[env], self._replay.oldest(env))  # later if writing has failed for long
                if start < stop:
                    self._sealed.append(self._write(env, start, stop))
                self._next[env] = stop
        return self._next != before

    def needed(self) -> list[Segment]:
        """Return the segments that overlap the ring buffer's content."""
        self._sealed = [s for s in self._sealed if s.start + s.frames > self._replay.oldest(s.env)]
        return sorted(self._sealed, key=lambda s: (s.env, s.start))

    def are_there(self) -> bool:
        """Whether all needed segments still exist."""
        return all((self.folder / segment.name).is_file() for segment in self.needed())

    def tail(self) -> bytes:
        """Return the frames that are in no segment, for all environments, as a safetensors file."""
        replay = self._replay
        arrays = {}
        for env in range(replay.num_envs):
            start, stop = max(self._next[env], replay.oldest(env)), int(replay.written[env])
            arrays[f"{env}/start"] = np.array(start)
            arrays |= {f"{env}/{name}": array for name, array in self._records(env, start, stop).items()}
        return save(arrays)

    def _records(self, env: int, start: int, stop: int) -> Records:
        records = self._replay.records(env, start, stop)
        check_records(records, env, start)
        return records

    def _write(self, env: int, start: int, stop: int) -> Segment:
        data = save(self._records(env, start, stop))
        entry = Entry.of("", data)
        name = f"env{env}-{start:012d}-{entry.sha256[:16]}.safetensors"
        atomic.make_directory(self.folder)
        path = self.folder / name
        if path.is_dir() and not path.is_symlink():  # it would block every later checkpoint
            atomic.set_aside(path)
        atomic.write_file(path, data)
        return Segment(name, entry.size, entry.sha256, env, start, stop - start)


def restore(replay: Replay, folder: Path, segments: Sequence[Segment], tail: bytes) -> None:
    """Fill a new replay buffer from segments and a tail, and verify each."""
    arrays = read_arrays(tail)
    for segment in segments:
        if segment.env >= replay.num_envs:
            raise CheckpointError(f"{folder / segment.name} is of environment {segment.env}, which does not exist.")
    for env in range(replay.num_envs):
        own = sorted((s for s in segments if s.env == env), key=lambda s: s.start)
        end = own[0].start if own else None
        for segment in own:
            if segment.start != end:
                raise CheckpointError(f"{folder}: frames {end} to {segment.start} of environment {env} are missing.")
            _put(replay, env, segment.start, read_arrays(checkpoint_files.read_member(folder, segment)), segment.name)
            end = segment.start + segment.frames
            if end != replay.written[env]:
                raise CheckpointError(f"{folder / segment.name} does not hold the expected {segment.frames} frames.")
        prefix = f"{env}/"
        rest = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        raw_start = rest.pop("start", np.array(-1))
        start = int(raw_start) if raw_start.dtype == np.int64 else -1
        if start < 0 or (end is not None and start != end):
            raise CheckpointError(f"The replay tail of environment {env} does not follow its segments.")
        _put(replay, env, start, rest, "the replay tail")
        if (first := own[0].start if own else start) > (oldest := replay.oldest(env)):
            raise CheckpointError(f"{folder}: frames {oldest} to {first} of environment {env} are missing.")


def _put(replay: Replay, env: int, start: int, records: Records, name: str) -> None:
    layout = replay.record_layout()
    if records.keys() != layout.keys():
        raise CheckpointError(f"{name} holds {sorted(records)}, not {sorted(layout)}.")
    frames = len(records["reach"]) if records["reach"].ndim else 0
    for part, (kind, shape) in layout.items():
        array = records[part]
        if array.dtype != kind or array.shape != (frames, *shape):
            raise CheckpointError(
                f"{part} of {name} is {array.dtype} {array.shape}, but the buffer needs {kind} {(frames, *shape)}."
            )
    if not 0 < frames <= replay.slots or start + frames >= 2**62:
        raise CheckpointError(
            f"{name} holds {frames} frames, but the replay buffer has {replay.slots} per environment."
        )
    replay.restore(env, start, records)
