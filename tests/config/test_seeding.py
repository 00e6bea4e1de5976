"""Generators by name."""

from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bdqn.config.seeding import generator, integer_seed

NAMES = ["explore", "draw", "replay", "refit", "network", "env", "env0", "env1", "env10"]


def stream(seed: int, name: str) -> list[int]:
    return generator(seed, name).integers(2**63, size=4).tolist()


def test_a_seed_and_a_name_always_give_the_same_stream() -> None:
    assert stream(3, "draw") == stream(3, "draw")
    assert integer_seed(3, "draw") == integer_seed(3, "draw")


def test_a_stream_is_the_same_in_every_version() -> None:
    """Results name their seed, so what a seed means must not change."""
    assert stream(0, "draw")[:2] == [7059257672465794213, 7991873176295804853]
    assert integer_seed(0, "network") == 1430379612


def test_every_name_and_every_seed_has_a_stream_of_its_own() -> None:
    streams = {(seed, name): stream(seed, name) for seed in range(5) for name in NAMES}
    numbers = [number for values in streams.values() for number in values]
    assert len(set(numbers)) == 4 * 5 * len(NAMES)
    assert len({integer_seed(seed, name) for seed in range(5) for name in NAMES}) == 5 * len(NAMES)


def test_another_generator_changes_nothing() -> None:
    alone = stream(1, "draw")
    other = generator(1, "new")
    draw = generator(1, "draw")
    other.random(1000)
    assert_array_equal(draw.integers(2**63, size=4), alone)


@settings(deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**64), name=st.text())
def test_number_seeds_suit_libraries_that_want_31_bits(seed: int, name: str) -> None:
    assert 0 <= integer_seed(seed, name) < 2**31
