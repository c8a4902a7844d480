"""Can the slowest always read, and is nobody further ahead than it may be?"""

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.ids import TaskId
from cutwater.protocol.source_alignment import (
    Member,
    SourceAdvanced,
    SourceAlignment,
    SourceFinished,
    SourceIdled,
)
from cutwater.protocol.watermarks import MIN_TIMESTAMP_MS

TASKS = [TaskId("source", subtask) for subtask in range(4)]
tasks = st.sampled_from(TASKS)
events = st.lists(
    st.one_of(
        st.builds(SourceAdvanced, tasks, st.none() | st.integers(-20, 60)),
        st.builds(SourceIdled, tasks),
        st.builds(SourceFinished, tasks),
    ),
    max_size=40,
)
groups = st.lists(st.builds(Member, st.sampled_from("ab"), st.integers(0, 15)), min_size=4, max_size=4)


@given(groups, events)
def test_the_slowest_that_counts_can_read_and_nobody_is_too_far_ahead(members, events):
    alignment = SourceAlignment(dict(zip(TASKS, members, strict=True)))
    group_of = dict(zip(TASKS, members, strict=True))
    limits = dict.fromkeys(TASKS, MIN_TIMESTAMP_MS)
    reached = dict.fromkeys(TASKS, MIN_TIMESTAMP_MS)
    finished = set()
    for event in events:
        for effect in alignment.handle(event):
            assert effect.task not in finished, "nobody is there to hear it"
            limits[effect.task] = effect.limit_ms
        task = event.task
        if task in finished:
            continue
        match event:
            case SourceAdvanced(_, watermark_ms):
                reached[task] = MIN_TIMESTAMP_MS if watermark_ms is None else watermark_ms
            case SourceIdled():
                reached.pop(task, None)
            case SourceFinished():
                reached.pop(task, None)
                finished.add(task)
        told = group_of[task].group
        counting = [other for other in reached if group_of[other].group == told]
        if counting:
            slowest = min(counting, key=reached.get)
            assert limits[slowest] is None or reached[slowest] <= limits[slowest], "the slowest can't read"
        for one in TASKS:
            if group_of[one].group != told or one in finished:
                continue  # a group is told of by its own events
            others = [reached[other] for other in counting if other != one]
            expected = min(others) + group_of[one].max_drift_ms if others else None
            assert limits[one] == expected


@given(
    st.lists(st.lists(st.integers(0, 25), max_size=12), min_size=2, max_size=4),
    st.integers(0, 20),
    st.randoms(use_true_random=False),
)
def test_every_source_is_read_to_its_end_in_any_interleaving(steps, drift, random):
    """Sources report late and hear late; each step is an event-time gap to the next record."""
    names = TASKS[: len(steps)]
    alignment = SourceAlignment({task: Member("g", drift) for task in names})
    left = {task: list(gaps) for task, gaps in zip(names, steps, strict=True)}
    clock = dict.fromkeys(names)
    limits = dict.fromkeys(names, MIN_TIMESTAMP_MS)
    ended = set()
    mail = []

    def report(task):
        mail.append((alignment.handle, SourceFinished(task) if task in ended else SourceAdvanced(task, clock[task])))

    while len(ended) < len(names) or mail:
        readable = [
            task
            for task in names
            if task not in ended and (clock[task] is None or limits[task] is None or clock[task] <= limits[task])
        ]
        if mail and (not readable or random.random() < 0.5):
            handle, event = mail.pop(0)
            for effect in handle(event):
                limits[effect.task] = effect.limit_ms
            continue
        assert readable, f"nobody may read: {clock} with {limits}"
        task = random.choice(readable)
        if left[task]:
            clock[task] = (clock[task] or 0) + left[task].pop(0)
        else:
            ended.add(task)
        report(task)
