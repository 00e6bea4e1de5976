"""Problems of exploration: their dynamics on facts worked out by hand, their optimum by the policy that has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from bdqn.envs import make_env
from bdqn.envs.catalog import EXPLORATION
from bdqn.envs.exploration import BinaryTree, Cliff, Grid, KeyDoor, Lock, NChain, RiverSwim, SwingUp, Tabular
from bdqn.envs.state import get_state, set_state

RIGHT, LEFT, UP, DOWN = range(4)


def play(env: Any, actions: list[int]) -> tuple[Any, bool, bool]:
    """The return of these actions, and how the episode stands after them."""
    env.reset(seed=0)
    total, ended, truncated = 0.0, False, False
    for action in actions:
        assert not ended
        assert not truncated
        _, reward, ended, truncated, _ = env.step(action)
        total += reward
    return total, ended, truncated


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", EXPLORATION)
def test_gymnasium_has_no_complaint(name: str) -> None:
    check_env(make_env(f"bdqn/{name}-v0").unwrapped, skip_render_check=True)


@pytest.mark.parametrize(
    ("env", "actions", "best"),
    [
        (Grid(5), [RIGHT] * 4 + [UP] * 4, 1.0),
        (Grid(16, step_cost=0.01), [RIGHT] * 15 + [UP] * 15, 0.71),
        (Grid(5, near_reward=0.1), [UP, RIGHT] * 4, 1.0),
        (Cliff(5, slip=0.0), [UP, *[RIGHT] * 4, DOWN], 0.9),
        (KeyDoor(6), [LEFT] * 3 + [RIGHT] * 5, 1.0),
        (KeyDoor(4, 4), [LEFT, DOWN] * 2 + [RIGHT, UP] * 3, 1.0),
        (NChain(50), [1] * 59, 11.0),
        (NChain(50, near_reward=1.0), [0] * 59, 58.0),
        (NChain(100), [1] * 109, 11.0),
    ],
)
def test_the_best_policy_collects_the_optimum(env: Tabular, actions: list[int], best: float) -> None:
    total, ended, truncated = play(env, actions)
    assert total == pytest.approx(best)
    assert env.optimal_return == pytest.approx(best)
    assert ended or truncated


def test_a_step_off_the_edge_is_a_fall() -> None:
    assert play(Cliff(slip=0.0), [UP, RIGHT, DOWN]) == (pytest.approx(-1.04), True, False)
    falls = [o for o in Cliff().outcomes((3, 1), RIGHT) if o.reward == -1.0]
    assert [o.probability for o in falls] == [pytest.approx(0.05)]  # a slip goes down one time in four
    assert all(o.state[1] > 0 for o in Cliff().outcomes((3, 2), RIGHT)), "one row further up, one slip is no fall"


def test_episodes_are_cut_at_the_limit() -> None:
    assert play(Grid(4, step_cost=0.01), [LEFT] * 12) == (pytest.approx(-0.12), False, True)
    assert Grid(4).limit == 12
    with pytest.raises(ValueError, match="limit"):
        Grid(4, limit=0)


def test_a_near_reward_ends_the_episode() -> None:
    assert play(Grid(6, near_reward=0.1), [UP, UP]) == (pytest.approx(0.1), True, False)


def test_the_door_does_not_open_without_the_key() -> None:
    env = KeyDoor(6)
    assert play(env, [RIGHT] * 5) == (0.0, False, False)
    obs, *_ = env.step(LEFT)
    assert obs.tolist() == [4, 0, 0]
    env.reset()
    for _ in range(3):
        obs, *_ = env.step(LEFT)
    assert obs.tolist() == [0, 0, 1]


def test_images_show_where_things_are() -> None:
    env = KeyDoor(4, 4, image=True)
    obs, _ = env.reset()
    assert np.argwhere(obs).tolist() == [[0, 0, 1], [2, 2, 0], [3, 3, 2]]
    for action in (LEFT, LEFT, DOWN, DOWN):
        obs, *_ = env.step(action)
    assert np.argwhere(obs).tolist() == [[0, 0, 0], [3, 3, 2]]  # the key is taken
    obs, _ = Grid(4, image=True, near_reward=0.1).reset()
    assert np.argwhere(obs).tolist() == [[0, 0, 0], [0, 2, 1], [3, 3, 1]]


def test_the_lock_pays_for_wrong_numbers_too() -> None:
    env = Lock(length=4)
    right = [int(number) for number in env.combination]
    assert play(env, right) == (1.0, True, False)
    assert play(env, [right[0], (right[1] + 1) % 3, *right[2:]]) == (pytest.approx(0.03), True, False)
    assert env.optimal_return == 1.0
    chance = sum(3.0**-k * (1 - 1 / 3) * 0.01 * (4 - k) for k in range(4)) + 3.0**-4
    assert env.random_return == pytest.approx(chance)


def test_one_sequence_of_the_tree_pays() -> None:
    env = BinaryTree(6)
    right = [int(action) for action in env.goes_on]
    assert play(env, right) == (1.0, True, False)
    assert [int(env.outcomes((2 * at,), action)[0].state[0]) for at, action in enumerate(right)] == [2, 4, 6, 8, 10, 12]
    for length in range(6):
        assert play(env, [*right[:length], 1 - right[length]]) == (0.0, True, False)
        assert env.observe(env._state) == 2 * length + 1, "ends have odd numbers"
    assert (env.optimal_return, env.random_return) == (1.0, 2.0**-6)


def test_the_mapping_seed_draws_the_sequence_of_the_tree() -> None:
    sequences = {tuple(BinaryTree(20, mapping_seed=seed).goes_on) for seed in range(20)}
    assert len(sequences) == 20
    assert (BinaryTree(20, mapping_seed=3).goes_on == BinaryTree(20, mapping_seed=3).goes_on).all()


@pytest.mark.parametrize(("name", "size"), [("NChain100", 100), ("BinaryTree10", 10), ("BinaryTree250", 250)])
def test_ids_name_the_sizes(name: str, size: int) -> None:
    assert make_env(f"bdqn/{name}-v0").unwrapped.size == size  # type: ignore[attr-defined]


def test_the_river_is_that_of_the_literature() -> None:
    env = RiverSwim()
    assert play(env, [0] * 50) == (pytest.approx(0.25), False, True)
    assert [o.probability for o in env.outcomes((2,), 1)] == [0.05, 0.6, 0.35]
    assert [(o.state, o.reward, o.probability) for o in env.outcomes((5,), 1)] == [((4,), 1.0, 0.4), ((5,), 1.0, 0.6)]
    # Always to the right, by the chain's own transition matrix.
    transition = np.diag([0.4, 0.6, 0.6, 0.6, 0.6, 0.6]) + np.diag([0.6, *[0.35] * 4], 1)
    transition += np.diag([*[0.05] * 4, 0.4], -1)
    where, total = np.eye(6)[0], 0.0
    for _ in range(50):
        total += where[5]
        where = where @ transition
    assert env.optimal_return == pytest.approx(total, rel=1e-3)


def test_a_random_policy_collects_what_was_computed() -> None:
    for env in (Grid(3, step_cost=0.01, slip=0.2), RiverSwim(3), KeyDoor(4)):
        rng, returns = np.random.default_rng(0), []
        env.reset(seed=1)
        for _ in range(4000):
            env.reset()
            done, total = False, 0.0
            while not done:
                _, reward, ended, truncated, _ = env.step(int(rng.integers(len(env.move_of))))
                total, done = total + reward, ended or truncated
            returns.append(total)
        error = np.std(returns) / np.sqrt(len(returns))
        assert np.mean(returns) == pytest.approx(env.random_return, abs=4 * error)


def test_slips_go_anywhere() -> None:
    outcomes = Grid(5, slip=0.2).outcomes((2, 2), RIGHT)
    assert {o.state: round(o.probability, 9) for o in outcomes} == {
        (3, 2): 0.85,
        (1, 2): 0.05,
        (2, 3): 0.05,
        (2, 1): 0.05,
    }


def test_the_mapping_seed_alone_decides_what_actions_mean() -> None:
    assert Grid(4).move_of.tolist() == [0, 1, 2, 3]
    meanings = {tuple(Grid(4, mapping_seed=seed).move_of) for seed in range(20)}
    assert len(meanings) > 5
    assert (Grid(4, mapping_seed=3).move_of == Grid(8, mapping_seed=3).move_of).all()
    env = Grid(4, mapping_seed=3)
    right = int(np.flatnonzero(env.move_of == RIGHT)[0])
    env.reset()
    assert env.step(right)[0].tolist() == [1, 0]
    assert (Lock(mapping_seed=1).combination != Lock(mapping_seed=2).combination).any()


@pytest.mark.parametrize("name", EXPLORATION)
def test_an_episode_can_be_taken_up_where_it_was_left(name: str) -> None:
    one, other = make_env(f"bdqn/{name}-v0"), make_env(f"bdqn/{name}-v0")
    one.reset(seed=0)
    other.reset(seed=5)
    for action in (0, 1, 1, 0):
        one.step(action)
    set_state(other, get_state(one))
    for action in (1, 0, 1, 1):
        for mine, theirs in zip(one.step(action), other.step(action), strict=True):
            assert np.array_equal(mine, theirs)


def test_the_pole_can_be_swung_up_and_chance_cannot() -> None:
    env = SwingUp()

    def total(policy: Any) -> float:
        env.reset(seed=0)
        done, reward_sum = False, 0.0
        while not done:
            _, reward, ended, truncated, _ = env.step(policy(*env._state))
            reward_sum, done = reward_sum + reward, ended or truncated
        return reward_sum

    def by_energy(place: float, speed: float, angle: float, turning: float) -> int:
        tilt = (angle + np.pi) % (2 * np.pi) - np.pi
        if np.cos(tilt) > 0.85:  # near the top: hold it there
            push = 30 * tilt + 6 * turning + 1.5 * place + 3 * speed
            push *= abs(push) > 1
        else:  # pump until it has the energy of standing still at the top
            lack = 9.8 * (1 - np.cos(tilt)) - turning**2 / 3
            push = -np.sign(lack) * turning * np.cos(tilt) - 0.5 * place - 0.5 * speed
        return 1 + int(np.sign(push))

    assert total(by_energy) > 350
    rng = np.random.default_rng(0)
    assert np.mean([total(lambda *_: int(rng.integers(3))) for _ in range(20)]) < 0.5
