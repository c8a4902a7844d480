"""Does merged event time only advance, and never past a channel that counts?"""

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.watermarks import (
    MAX_TIMESTAMP_MS,
    AdvanceWatermark,
    BecomeIdle,
    ChannelFinished,
    ChannelIdled,
    ChannelResumed,
    Event,
    WatermarkArrived,
    WatermarkMerger,
)

channels = st.integers(0, 2)
events = st.lists(
    st.one_of(
        st.builds(WatermarkArrived, channels, st.integers(-5, 20)),
        st.builds(ChannelIdled, channels),
        st.builds(ChannelResumed, channels),
        st.builds(ChannelFinished, channels),
    ),
    max_size=40,
)


@given(events)
def test_time_only_advances_and_no_channel_that_counts_is_overtaken(events: list[Event]):
    merger = WatermarkMerger(range(3))
    reached: dict[int, int | None] = dict.fromkeys(range(3))
    idle: set[int] = set()
    shown: list[int] = []
    for event in events:
        effects = merger.handle(event)
        if event.channel in reached:
            match event:
                case WatermarkArrived(channel, timestamp_ms):
                    idle.discard(channel)
                    before = reached[channel]
                    reached[channel] = timestamp_ms if before is None else max(before, timestamp_ms)
                case ChannelIdled(channel):
                    idle.add(channel)
                case ChannelResumed(channel):
                    idle.discard(channel)
                case ChannelFinished(channel):
                    idle.discard(channel)
                    del reached[channel]
        active = [reached[channel] for channel in reached.keys() - idle]
        advanced = [effect.timestamp_ms for effect in effects if isinstance(effect, AdvanceWatermark)]
        assert all(later > max(shown, default=-(10**9)) for later in advanced), "not monotone"
        if advanced and active:
            assert None not in active
            assert advanced == [min(active)], "past a channel that counts"
        if active and None not in active:
            assert merger.watermark_ms >= min(active), "held back by nobody"
        if BecomeIdle() in effects:
            assert reached
            assert not active
        shown += advanced
    if not reached:
        assert shown[-1] == MAX_TIMESTAMP_MS
