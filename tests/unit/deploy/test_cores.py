"""Is a job that can never get its slots refused at once, and every other one left to wait?"""

from __future__ import annotations

import pytest

from cutwater.deploy.cores import cores_at_most, refuse_too_few
from cutwater.errors import SlotsMissingError

FIXED = {"spark.executor.instances": "3", "spark.executor.cores": "2"}


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[4]"}, 4),
        ({"spark.master": "local[4, 10]"}, 4),
        ({"spark.master": "local[*]"}, 8),
        ({"spark.master": "local[*,2]"}, 8),
        ({"spark.master": "local-cluster[2,3,1024]"}, 6),
        ({"spark.master": "spark://host:7077"}, None),
        ({"spark.master": "spark://host:7077", "spark.cores.max": "5"}, 5),
        ({"spark.master": "yarn"}, None),
        ({"spark.master": "yarn", **FIXED}, 6),
        ({"spark.master": "k8s://https://host", **FIXED, "spark.dynamicAllocation.enabled": "true"}, None),
        ({}, None),
    ],
)
def test_cores_are_counted_only_where_they_are_certain(settings: dict[str, str], cores: int | None) -> None:
    assert cores_at_most(settings.get, processors=8) == cores


def test_too_few_cores_are_refused_with_what_would_be_enough() -> None:
    with pytest.raises(SlotsMissingError, match="needs 4 slots, and this Spark has room for 2") as refused:
        refuse_too_few({"spark.master": "local[2]"}.get, processors=8, slots=4, job="orders")
    assert "local[5]" in refused.value.hint


def test_a_slot_may_need_several_cores() -> None:
    settings = {"spark.master": "local[6]", "spark.task.cpus": "2"}
    refuse_too_few(settings.get, processors=8, slots=3, job="orders")
    with pytest.raises(SlotsMissingError, match="room for 3"):
        refuse_too_few(settings.get, processors=8, slots=4, job="orders")
