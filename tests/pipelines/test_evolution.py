"""A savepoint of one program, restored in a changed one: right, or refused before the first record with the reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import cutwater as cw

from .running import wait_for

RECORDS = 1_200
KEYS = 8


@dataclass
class Account:
    seen: int


@dataclass
class AccountWithLimit:
    seen: int
    limit: int = 7


@dataclass
class AccountWithOwner:
    seen: int
    owner: str


class Numbered:
    """(key, how many records of the key so far), with the state as a value of a declared type."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def open(self, context: Any) -> None:
        self._account = context.value_state("account", type=self._kind)

    def process(self, key: str, context: Any) -> Iterator[list[Any]]:
        account = self._account.value() or self._kind(0)
        account.seen += 1
        self._account.update(account)
        yield [key, account.seen, getattr(account, "limit", None)]


def key_of(number: int) -> str:
    return f"key-{number % KEYS}"


class Programs:
    """The old program and its changes, on the same storage and output."""

    def __init__(self, spark: Any, root: Path) -> None:
        self._spark = spark
        self.root = root

    def start(self, *, per_second: float | None = None, **options: Any) -> tuple[cw.Environment, cw.DataStream]:
        env = cw.Environment(
            spark=self._spark,
            checkpoints=cw.Checkpoints(every="200ms", storage=f"{self.root}/checkpoints"),
            **{"parallelism": 2, **options},
        )
        source = cw.sources.generator(key_of, count=RECORDS, per_second=per_second, splits=2)
        return env, env.from_source(source, uid="numbers")

    def savepoint(self) -> str:
        """Of the old program, half-way."""
        env, numbers = self.start(per_second=400)
        numbered = numbers.key_by(str).process(Numbered(Account), uid="numbered")
        numbered.sink_to(cw.sinks.json_lines(f"{self.root}/out"), uid="out")
        job = env.submit("evolving")
        wait_for(job, lambda status: status.checkpoints_completed >= 2)
        path = job.stop(savepoint=f"{self.root}/savepoints", timeout="60s")
        job.wait("60s")
        assert path is not None
        assert 0 < len(self.rows()) < RECORDS
        return path

    def rows(self) -> list[list[Any]]:
        return [json.loads(line) for path in (self.root / "out").glob("*.jsonl") for line in path.open()]

    def counts(self) -> Counter[tuple[str, int]]:
        return Counter((key, seen) for key, seen, *_ in self.rows())


EXPECTED = Counter((f"key-{key}", n) for key in range(KEYS) for n in range(1, RECORDS // KEYS + 1))


@pytest.fixture
def programs(spark: Any, tmp_path: Path) -> Programs:
    return Programs(spark, tmp_path)


def test_a_field_with_a_default_is_added_and_operators_come_go_and_move(programs: Programs) -> None:
    path = programs.savepoint()
    before = len(programs.rows())
    env, numbers = programs.start(parallelism=3, state_backend="rocksdb")
    # A new operator in front, one with state of its own behind, and the old one in another chain.
    checked = numbers.filter(lambda key: key.startswith("key"), uid="checked")
    numbered = checked.key_by(str).process(Numbered(AccountWithLimit), uid="numbered", chaining=False)
    numbered.key_by(lambda row: row[0]).count(uid="totals").sink_to(cw.sinks.discard(), uid="end")
    numbered.sink_to(cw.sinks.json_lines(f"{programs.root}/out"), uid="out")
    env.execute("evolving", restore=path)
    assert programs.counts() == EXPECTED
    assert Counter(limit for *_, limit in programs.rows()) == {None: before, 7: RECORDS - before}


def test_a_field_without_a_default_is_refused_by_its_name(programs: Programs) -> None:
    path = programs.savepoint()
    before = programs.counts()
    env, numbers = programs.start()
    numbered = numbers.key_by(str).process(Numbered(AccountWithOwner), uid="numbered")
    numbered.sink_to(cw.sinks.json_lines(f"{programs.root}/out"), uid="out")
    with pytest.raises(cw.errors.SerializationError, match="owner"):
        env.execute("evolving", restore=path)
    assert programs.counts() == before, "not one record was processed"


def test_a_claimed_savepoint_is_deleted_when_the_job_has_checkpoints_of_its_own(programs: Programs) -> None:
    path = programs.savepoint()
    env, numbers = programs.start(per_second=400, state_backend="rocksdb")
    numbered = numbers.key_by(str).process(Numbered(Account), uid="numbered")
    numbered.sink_to(cw.sinks.json_lines(f"{programs.root}/out"), uid="out")
    job = env.submit("evolving", restore=path, claim=True)
    wait_for(job, lambda status: status.checkpoints_completed >= 1)
    is_there = Path(path).exists()
    assert is_there or job.status().checkpoints_completed >= 3, "until then the job may go back to it"
    job.wait("60s")
    assert programs.counts() == EXPECTED
    assert not Path(path).exists()


def test_without_a_claim_a_savepoint_stays_and_can_be_restored_again(programs: Programs) -> None:
    path = programs.savepoint()
    before = sorted(Path(path).rglob("*"))
    for job_id in ("first", "second"):
        env, numbers = programs.start()
        numbered = numbers.key_by(str).process(Numbered(Account), uid="numbered")
        results = numbered.key_by(lambda row: row[0]).max(1, uid="totals")
        results.sink_to(cw.sinks.discard(), uid="end")
        env.execute("evolving", restore=path, job_id=job_id, allow_non_restored_state=True)
    assert sorted(Path(path).rglob("*")) == before


def test_an_operator_whose_uid_is_gone_is_refused_by_its_name(programs: Programs) -> None:
    path = programs.savepoint()
    env, numbers = programs.start()
    numbered = numbers.key_by(str).process(Numbered(Account), uid="renamed")
    numbered.sink_to(cw.sinks.json_lines(f"{programs.root}/out"), uid="out")
    with pytest.raises(cw.errors.GraphError, match='"numbered"'):
        env.execute("evolving", restore=path)
