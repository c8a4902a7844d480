"""What must be visible when a job has lived several times?"""

from __future__ import annotations

from collections.abc import Callable

from cutwater.testing.simulation.lineage import NOTHING, Lineage, output_problem


def two_checkpoints() -> Lineage:
    lineage = Lineage()
    lineage.completed("job/chk-1", 1, {"out/a"})
    lineage.completed("job/chk-2", 2, {"out/b"})
    return lineage


def problem(lineage: Lineage, *visible: str, before: tuple[str, ...] = (), complete: bool = True) -> str | None:
    return output_problem(
        visible=frozenset(visible), visible_before=frozenset(before), lineage=lineage, complete=complete
    )


def test_a_life_that_goes_on_from_the_latest_has_everything_once() -> None:
    lineage = two_checkpoints()
    lineage.goes_on_from("job/chk-2")
    lineage.completed("job/chk-3", 3, {"out/c"})
    assert lineage.newest.covered == {"out/a", "out/b", "out/c"}


def test_a_life_from_an_older_checkpoint_writes_again_what_came_behind_it() -> None:
    lineage = two_checkpoints()
    lineage.goes_on_from("job/chk-1")
    lineage.completed("job/chk-3", 3, {"out/c"})
    assert lineage.newest.covered == {"out/a", "out/c"}
    assert problem(lineage, "out/a", "out/b", "out/c", before=("out/a", "out/b")) is None


def test_a_savepoint_covers_what_it_had_prepared_but_its_job_does_not_go_back_to_it() -> None:
    lineage = two_checkpoints()
    lineage.taken("savepoint", 3, {"out/s"})
    assert lineage.newest.covered == {"out/a", "out/b"}
    assert problem(lineage, "out/a", "out/b", "out/s") == "no completed snapshot covers ['out/s']"
    lineage.goes_on_from("savepoint")
    assert lineage.newest.covered == {"out/a", "out/b", "out/s"}
    assert problem(lineage, "out/a", "out/b", "out/s") is None


def test_a_savepoint_does_not_cover_what_a_later_checkpoint_does() -> None:
    lineage = two_checkpoints()
    lineage.completed("job/chk-4", 4, {"out/d"})
    assert lineage.taken("savepoint", 3, {"out/s"}).covered == {"out/a", "out/b", "out/s"}


def test_a_savepoint_is_of_the_line_of_its_attempt_even_if_the_next_one_has_gone_on_when_it_is_heard_of() -> None:
    lineage = Lineage()
    lineage.goes_on_from(NOTHING, attempt=1)
    lineage.goes_on_from(NOTHING, attempt=2)
    lineage.completed("job/chk-1", 1, {"out/again"})
    assert lineage.taken("savepoint", 2, {"out/s"}, attempt=1).covered == {"out/s"}


def test_a_checkpoint_that_completes_behind_a_newer_one_does_not_lead_the_line() -> None:
    lineage = Lineage()
    lineage.completed("job/chk-2", 2, {"out/a", "out/b"})
    lineage.completed("job/chk-1", 1, {"out/a"})
    assert lineage.newest.checkpoint == 2


def test_a_life_that_starts_anew_covers_nothing_of_the_last_one() -> None:
    lineage = two_checkpoints()
    lineage.goes_on_from(NOTHING)
    assert lineage.newest.covered == frozenset()
    assert problem(lineage, "out/a", "out/b", before=("out/a", "out/b")) is None


def test_what_was_visible_stays_visible() -> None:
    assert problem(two_checkpoints(), "out/a", before=("out/b",), complete=False) == "['out/b'] were visible before"


def test_a_life_that_finished_has_committed_all_that_it_covers() -> None:
    assert problem(two_checkpoints(), "out/a") == "['out/b'] are covered, but not visible"
    assert problem(two_checkpoints(), "out/a", complete=False) is None


def test_a_deleted_folder_is_forgotten_and_its_names_can_be_used_again() -> None:
    lineage = two_checkpoints()
    lineage.forget("job")
    lineage.goes_on_from(NOTHING)
    assert lineage.completed("job/chk-1", 1, {"out/x"}).covered == {"out/x"}
    assert problem(lineage, "out/a", "out/x") is None


def into(folder: str) -> Callable[[str], str]:
    return lambda part: f"{folder}/{part.rpartition('/')[2]}"


def test_what_a_snapshot_had_prepared_becomes_visible_in_the_folder_of_the_life_that_goes_on_from_it() -> None:
    lineage = Lineage()
    lineage.completed("job/chk-1", 1, {"a/1"})
    lineage.taken("savepoint", 2, {"a/2"})
    lineage.goes_on_from("savepoint", into("b"))
    lineage.completed("job/chk-3", 3, {"b/3"})
    assert lineage.newest.covered == {"a/1", "b/2", "b/3"}
    assert problem(lineage, "a/1", "b/2", "b/3") is None
    assert problem(lineage, "a/1", "b/3") == "['b/2'] are covered, but not visible"
    assert problem(lineage, "a/1", "a/2", "b/2", "b/3") == "no completed snapshot covers ['a/2']"


def test_a_savepoint_that_is_restored_into_two_folders_is_in_both() -> None:
    lineage = Lineage()
    lineage.taken("savepoint", 2, {"a/2"})
    lineage.goes_on_from("savepoint", into("b"))
    lineage.goes_on_from("savepoint", into("a"))
    assert lineage.newest.covered == {"a/2"}
    assert problem(lineage, "a/2", "b/2", before=("b/2",)) is None


def test_a_life_that_ends_before_it_starts_an_attempt_may_have_committed_what_it_was_to_go_on_from() -> None:
    lineage = two_checkpoints()
    lineage.commits("job/chk-2", into("b"))
    assert lineage.newest.covered == {"out/a", "out/b"}
    assert problem(lineage, "out/a", "b/b", complete=False) is None


def test_the_first_checkpoint_behind_a_savepoint_may_have_its_number() -> None:
    lineage = two_checkpoints()
    lineage.taken("savepoint", 3, {"out/s"})
    lineage.goes_on_from("savepoint")
    assert lineage.completed("job/chk-3", 3, {"out/c"}).covered == {"out/a", "out/b", "out/s", "out/c"}
    assert lineage.newest.checkpoint == 3
