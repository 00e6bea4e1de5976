"""When a fit is due because the data have grown."""

from __future__ import annotations

from bdqn.qlearning.growth import Growth, GrowthClock


def test_a_fit_is_due_when_the_data_have_grown_by_a_share() -> None:
    clock = GrowthClock(Growth(share=0.5, least=10, most=40))
    assert [decision for decision in range(200) if clock.due(decision)] == [0, 10, 20, 30, 45, 68, 102, 142, 182]


def test_news_does_not_wait_but_is_looked_for_at_intervals() -> None:
    clock = GrowthClock(Growth(share=0.5, least=10, most=1000, news=0.1))
    due, looked = [], []
    for decision in range(1, 60):

        def kinds(now: int = decision) -> int:
            looked.append(now)
            return 20 + now // 10

        if clock.due_to_news(decision, 20, kinds):
            due.append(decision)
    assert due == [20, 30, 40, 50]  # 22 kinds where 20 were known
    assert looked == [10, 20, 30, 40, 50]


def test_looking_for_news_gets_rarer_as_the_data_grow() -> None:
    clock = GrowthClock(Growth(share=0.5, least=10, most=1000, news=0.1))
    looks = 0

    def kinds() -> int:
        nonlocal looks
        looks += 1
        return 0

    assert not any(clock.due_to_news(decision, 20, kinds) for decision in range(50_000, 100_000))
    assert 120 < looks <= 200


def test_without_a_share_of_news_nobody_looks() -> None:
    clock = GrowthClock(Growth(share=0.5, least=10, most=1000))
    assert not clock.due_to_news(500, 0, kinds=lambda: 1 // 0)
