"""An Atari game goes on exactly where it was, in a new process and without pickle.

Its state is the emulator's own, and what sticky actions need beside it; games are restored in the middle of an episode
and played on over lost lives, game overs and no-op starts, and every screen and every byte of the console's memory is
compared.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from bdqn.envs import PROTOCOLS, AtariEnv, Environments
from bdqn.storage.state_files import from_files, to_files
from support.processes import elsewhere

pytest.importorskip("ale_py", reason="the atari extra is not installed")

# Everything random at once, and a lost life is noted: no named protocol has all of it.
PROTOCOL = replace(PROTOCOLS["machado"], max_noops=30, life_loss_is_terminal=True, max_episode_frames=6_000)


def environments(game: str, seed: int) -> Environments:
    return Environments([AtariEnv(game, PROTOCOL)], [seed])


def play(envs: Environments, first: int, last: int) -> list[str]:
    """Take decisions ``first`` to ``last`` of a fixed sequence; what each led to, by its hash."""
    (env,) = envs.envs
    assert isinstance(env, AtariEnv)
    actions = np.random.default_rng(8).integers(int(envs.action_space.n), size=last)
    seen = []
    for action in actions[first:]:
        step = envs.step([int(action)])
        parts = (step.next_obs, step.reward, step.terminal, step.truncated, step.obs, env.ale.getRAM())
        sha = sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts))
        sha.update(repr((step.episodes, env.ale.lives(), env.ale.getEpisodeFrameNumber())).encode())
        # What can be counted is in front: an end, a lost life.
        seen.append(f"{int(step.ended[0])}{int(step.terminal[0])} {sha.hexdigest()}")
    return seen


def save(envs: Environments, stem: Path) -> None:
    for suffix, data in zip((".json", ".safetensors"), to_files(envs.state()), strict=True):
        stem.with_suffix(suffix).write_bytes(data)


def play_on(jobs: list[tuple[str, str, int, int]]) -> list[list[str]]:
    """Restore games and play each to its last decision, while pickle is out of reach."""
    with pytest.MonkeyPatch.context() as patch:
        forbid_pickle(patch)
        return [restored(Path(stem), game, cut, last) for stem, game, cut, last in jobs]


def restored(stem: Path, game: str, cut: int, last: int) -> list[str]:
    envs = environments(game, seed=99)  # it stands elsewhere, and would go on otherwise
    state = from_files(*(stem.with_suffix(suffix).read_bytes() for suffix in (".json", ".safetensors")))
    assert envs.load_state(state, [0]) == {}
    return play(envs, cut, last)


def forbid_pickle(patch: pytest.MonkeyPatch) -> None:
    import _pickle
    import pickle

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pickle was used")

    for module in (pickle, _pickle):
        for name in ("load", "loads", "dump", "dumps", "Unpickler", "Pickler"):
            patch.setattr(module, name, refuse)
    patch.setattr(np, "load", refuse)


def compare(tmp_path: Path, games: dict[str, list[int]], last: int) -> list[str]:
    """Play each game straight, save it at its cuts, and compare what a new process makes of each; gives all steps."""
    jobs, expected, everything = [], [], []
    for game, cuts in games.items():
        with pytest.MonkeyPatch.context() as patch:
            forbid_pickle(patch)
            envs, steps = environments(game, seed=4), []
            for start, stop in zip([0, *cuts], [*cuts, last], strict=True):
                steps += play(envs, start, stop)
                if stop < last:
                    save(envs, tmp_path / f"{game}-{stop}")
        jobs += [(str(tmp_path / f"{game}-{cut}"), game, cut, last) for cut in cuts]
        expected += [steps[cut:] for cut in cuts]
        everything += steps
    for job, answer, steps in zip(jobs, elsewhere(play_on, jobs, timeout=3600), expected, strict=True):
        differing = [i for i, pair in enumerate(zip(answer, steps, strict=True)) if pair[0] != pair[1]]
        assert not differing, f"{job[1]}, cut at {job[2]}: decision {job[2] + differing[0]} differs"
    return everything


def test_games_go_on_in_a_new_process(tmp_path: Path) -> None:
    steps = compare(tmp_path, {"breakout": [25, 170], "seaquest": [150]}, 330)
    assert sum(step.startswith("1") for step in steps) >= 1  # game overs, and no-op starts after them
    assert sum(step.startswith("01") for step in steps) >= 5  # lost lives


def test_the_action_that_may_stick_is_part_of_the_state() -> None:
    """In one of four frames the action before decides; many points, because the first frame alone can tell."""
    envs, other = environments("seaquest", seed=4), environments("seaquest", seed=99)
    play(envs, 0, 100)
    for decision in range(100, 135):
        other.envs[0].reset()  # it held the same action, and would be right by chance
        assert other.load_state(from_files(*to_files(envs.state())), [0]) == {}
        assert play(other, decision, decision + 1) == play(envs, decision, decision + 1)


@pytest.mark.long
def test_many_games_go_on_at_random_points_over_thousands_of_frames(tmp_path: Path) -> None:
    seed = int(np.random.SeedSequence().entropy % 2**32)  # type: ignore[operator]
    rng = np.random.default_rng(seed)
    names = ["breakout", "seaquest", "pong", "space_invaders", "qbert", "tetris", "ms_pacman", "beam_rider", "freeway"]
    last = 2_500
    games = {name: sorted(int(cut) for cut in rng.choice(np.arange(1, 1_200), 5, replace=False)) for name in names}
    steps = compare(tmp_path, games, last)
    frames = 4 * sum(last - cut for cuts in games.values() for cut in cuts)
    ends, lives = (sum(step.startswith(head) for step in steps) for head in ("1", "01"))
    print(f"seed {seed}: {len(games)} games, 45 restorations, {frames:,} frames equal over {ends} ends, {lives} lives")
