from __future__ import annotations

import pytest

from cutwater.graph.plan import job_id_of


@pytest.mark.parametrize(
    ("name", "job_id"),
    [("word count", "word-count"), ("Wörter zählen!", "worter-zahlen"), ("  a__b  ", "a-b"), ("語", "job-1befb22a")],
)
def test_a_job_id_is_made_from_the_name(name: str, job_id: str) -> None:
    assert job_id_of(name) == job_id
