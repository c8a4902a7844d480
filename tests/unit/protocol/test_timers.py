"""Which timers are due, and in which order?"""

from cutwater.protocol.timers import Timer, TimerQueue


def queue(*timers: tuple) -> TimerQueue:
    made = TimerQueue()
    for timer in timers:
        made.register(*timer)
    return made


def test_timers_fire_by_time_and_then_in_the_order_of_registration():
    timers = queue((20, "a"), (10, "z"), (10, "b"), (30, "c"))
    assert timers.due(20) == [Timer(10, "z"), Timer(10, "b"), Timer(20, "a")]


def test_a_timer_fires_once():
    timers = queue((10, "a"))
    timers.due(10)
    assert timers.due(99) == []


def test_a_timer_registered_twice_fires_once():
    timers = queue((10, "a", "w"))
    assert (timers.register(10, "a", "w"), timers.due(10)) == (False, [Timer(10, "a", "w")])


def test_namespaces_keep_timers_apart():
    assert len(queue((10, "a", 1), (10, "a", 2), (10, "a"))) == 3


def test_a_deleted_timer_does_not_fire():
    timers = queue((10, "a"), (20, "a"))
    assert (timers.delete(10, "a"), timers.next_time(), timers.due(99)) == (True, 20, [Timer(20, "a")])


def test_deleting_an_unknown_timer_changes_nothing():
    assert queue((10, "a")).delete(10, "b") is False


def test_a_timer_that_was_deleted_and_registered_again_fires_at_its_new_place():
    timers = queue((10, "a"), (10, "b"))
    timers.delete(10, "a")
    timers.register(10, "a")
    assert timers.due(10) == [Timer(10, "b"), Timer(10, "a")]


def test_the_next_time_is_that_of_the_earliest_timer():
    assert (queue((20, "a"), (10, "b")).next_time(), TimerQueue().next_time()) == (10, None)


def test_keys_need_no_order():
    assert queue((10, "a"), (10, 1), (10, None)).due(10) == [Timer(10, "a"), Timer(10, 1), Timer(10, None)]


def test_a_restored_queue_fires_as_the_snapshotted_one_would():
    before = queue((20, "a"), (10, "z", "w"), (10, "b"))
    before.delete(20, "a")
    restored = TimerQueue()
    restored.restore(before.items())
    assert restored.due(99) == before.due(99)


def test_many_deletions_leave_no_garbage():
    timers = queue((-1, "kept"))
    for number in range(1000):
        timers.register(number, "a")
        timers.delete(number, "a")
    assert (len(timers._heap) < 100, timers.items()) == (True, [Timer(-1, "kept")])
