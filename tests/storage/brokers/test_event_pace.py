"""So many events a second are sent at most, and no batch is split for it."""

from __future__ import annotations

from tierfold.storage.brokers.event_pace import EventPace


def test_without_a_limit_nothing_waits() -> None:
    pace = EventPace(None, 0.0)
    pace.spend(1_000_000, 0.0)
    assert pace.wait_ms_for(1_000_000, 0.0) == 0


def test_the_events_of_a_second_go_at_once_and_the_next_wait_for_theirs() -> None:
    pace = EventPace(10, 100.0)
    assert pace.wait_ms_for(10, 100.0) == 0
    pace.spend(8, 100.0)
    assert pace.wait_ms_for(2, 100.0) == 0
    assert pace.wait_ms_for(4, 100.0) == 200
    assert pace.wait_ms_for(4, 100.15) == 50
    assert pace.wait_ms_for(4, 100.21) == 0


def test_a_batch_larger_than_that_waits_until_the_bucket_is_full_and_overdraws_it() -> None:
    pace = EventPace(10, 0.0)
    pace.spend(5, 0.0)
    assert pace.wait_ms_for(100, 0.0) == 500
    pace.spend(100, 0.5)
    assert pace.wait_ms_for(1, 0.5) == 9_100


def test_time_without_events_saves_up_no_more_than_a_second() -> None:
    pace = EventPace(10, 0.0)
    pace.spend(10, 1000.0)
    assert pace.wait_ms_for(10, 1000.0) == 1000


def test_over_time_no_more_are_sent_than_the_limit_says() -> None:
    pace, now_s, sent = EventPace(10, 0.0), 0.0, 0
    for events in (7, 40, 1, 3, 25) * 40:
        now_s += pace.wait_ms_for(events, now_s) / 1000
        pace.spend(events, now_s)
        sent += events
        assert sent <= 10 * (now_s + 1) + 40
    assert now_s < sent / 10
