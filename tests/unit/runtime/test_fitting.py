from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cutwater.errors import ConfigurationError, GraphError
from cutwater.graph.model import Partitioning
from cutwater.protocol.splits import AssignerState, Split
from cutwater.runtime.fitting import check_fits, key_groups_of
from cutwater.runtime.sources import encode_assigner
from cutwater.snapshots.format import Chunk, Manifest, StatePart, TaskSnapshot, VertexShape

DONE = AssignerState((), frozenset({"a"}), complete=True)
UNREAD = AssignerState((Split("b", b""),), frozenset({"a", "b"}), complete=True)


def graph(*uids: str, max_parallelism: int = 128, keyed: str = "") -> Any:
    operators = [SimpleNamespace(uid=uid) for uid in uids]
    edges = [SimpleNamespace(receiver=keyed, partitioning=Partitioning.HASH)] if keyed else []
    vertices = [SimpleNamespace(operators=operators, max_parallelism=max_parallelism)]
    return SimpleNamespace(vertices=vertices, edges=edges)


def manifest(*, books: AssignerState = DONE, count_has_state: bool = True) -> Manifest:
    chunks = (Chunk(3, 0, 1),) if count_has_state else ()
    return Manifest(
        version=1,
        job_id="job",
        job_name="job",
        checkpoint=7,
        attempt=1,
        kind="periodic",
        created_at="",
        vertices=(VertexShape("books", ("books", "count"), 1, 128),),
        tasks=(TaskSnapshot("books", 0, (StatePart("count", "count", "keyed", chunks),), inline=b"x"),),
        sources={"books": encode_assigner(books)},
    )


def test_the_same_program_fits() -> None:
    check_fits(graph("books", "count"), manifest(books=UNREAD))


def test_state_without_an_operator_is_refused() -> None:
    with pytest.raises(GraphError, match='"count"'):
        check_fits(graph("books", "tally"), manifest())


def test_unread_splits_without_their_source_are_refused() -> None:
    with pytest.raises(GraphError, match='"books"'):
        check_fits(graph("count"), manifest(books=UNREAD))


def test_an_operator_of_which_nothing_is_left_may_go() -> None:
    check_fits(graph("tally"), manifest(count_has_state=False))


def test_another_number_of_key_groups_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_parallelism=128"):
        check_fits(graph("books", "count", max_parallelism=256), manifest())


def only_time(name: str = "input-time") -> Manifest:
    part = StatePart("count", name, "union", (Chunk(0, 0, 1),))
    return msgspec.structs.replace(manifest(), tasks=(TaskSnapshot("books", 0, (part,), inline=b"x"),))


@pytest.mark.parametrize("name", ["input-time", "watermark"])
def test_an_operator_of_which_only_the_time_is_left_may_go(name: str) -> None:
    check_fits(graph("tally"), only_time(name))


def test_the_event_time_of_keys_goes_by_key_group_as_their_state_does() -> None:
    with pytest.raises(ConfigurationError, match="max_parallelism=128"):
        check_fits(graph("books", "count", max_parallelism=256, keyed="count"), only_time())
    check_fits(graph("books", "count", max_parallelism=256), only_time())
    assert key_groups_of(only_time()) == 128
