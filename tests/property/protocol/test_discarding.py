"""Everything is deleted in the end, and nothing too early, in whatever order things happen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.discarding import Discarding
from cutwater.protocol.ids import CheckpointId


@given(
    st.lists(st.tuples(st.sampled_from(["trigger", "publish", "published", "over", "want", "end"]), st.integers(1, 6)))
)
def test_everything_goes_in_the_end_and_nothing_while_something_older_than_the_wish_is_under_way(
    steps: list[tuple[str, int]],
) -> None:
    discarding = Discarding()
    under_way: set[int] = set()
    publishing: set[int] = set()
    wanted: dict[int, set[int]] = {}

    def gone(ready: list[CheckpointId]) -> None:
        for checkpoint in ready:
            assert not wanted.pop(checkpoint) & under_way

    for step, number in steps:
        checkpoint = CheckpointId(number)
        match step:
            case "trigger":
                under_way.add(number)
                discarding.triggered(checkpoint)
            case "publish" if number in under_way:
                publishing.add(number)
                discarding.publishing(checkpoint)
            case "published" if number in publishing:
                publishing.discard(number)
                under_way.discard(number)
                gone(discarding.published(checkpoint))
            case "over":
                under_way -= {number} - publishing
                gone(discarding.over(checkpoint))
            case "want":
                wanted[number] = under_way - {number}
                gone(discarding.wanted(checkpoint))
            case "end":
                under_way &= publishing
                gone(discarding.all_over())
    under_way &= publishing
    gone(discarding.all_over())
    for number in list(publishing):
        publishing.discard(number)
        under_way.discard(number)
        gone(discarding.published(CheckpointId(number)))
    assert wanted == {}
