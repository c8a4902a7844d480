from __future__ import annotations

import pickle
import threading
from pathlib import Path

import cloudpickle
import pytest

import cutwater as cw
from cutwater.api.launching import LaunchOptions
from cutwater.errors import ConfigurationError, GraphError, GuaranteeError, JobFailedError, SerializationError

from .launchers import FAILED, FakeLauncher


def counting(launcher: FakeLauncher, **options: object) -> cw.Environment:
    env = cw.Environment(launcher=launcher, **options)  # type: ignore[arg-type]
    env.from_collection(["a b"], uid="in").flat_map(str.split, uid="split").sink_to(cw.sinks.collect(), uid="out")
    return env


def test_execute_launches_the_job_and_waits_for_it() -> None:
    launcher = FakeLauncher()
    result = counting(launcher).execute("word count")
    assert (result.status.name, result.status.job_id) == ("word count", "word-count")
    assert launcher.jobs[0].calls == [("wait", None)]


def test_a_launched_plan_has_the_graph_the_options_and_the_guarantees() -> None:
    launcher = FakeLauncher()
    env = counting(launcher, parallelism=2)
    env.submit("word count")
    plan, _ = launcher.launched[0]
    assert [vertex.uid for vertex in plan.graph.vertices] == ["in"]
    assert plan.options is env.options
    assert [one.guarantee for one in plan.guarantees] == [cw.Guarantee.EXACTLY_ONCE]


def test_a_plan_survives_pickling_and_builds_its_operators() -> None:
    launcher = FakeLauncher()
    offset = 3
    env = cw.Environment(launcher=launcher)
    env.from_collection([1]).map(lambda number: number + offset).sink_to(cw.sinks.discard())
    env.submit()
    plan = pickle.loads(cloudpickle.dumps(launcher.launched[0][0]))
    (vertex,) = plan.graph.vertices
    assert [type(node.build()).__name__ for node in vertex.operators] == [
        "ReaderOperator",
        "MapOperator",
        "WriterOperator",
    ]


def test_every_task_gets_its_own_copy_of_a_users_object() -> None:
    class Remembers:
        def process(self, record: object, context: object) -> None: ...

    launcher = FakeLauncher()
    env = cw.Environment(launcher=launcher)
    env.from_collection([1]).process(Remembers()).sink_to(cw.sinks.discard())
    env.submit()
    build = launcher.launched[0][0].graph.vertices[0].operators[1].build
    assert build()._function is not build()._function


def test_restore_is_passed_on() -> None:
    launcher = FakeLauncher()
    counting(launcher).submit("job", restore="savepoints/42")
    assert launcher.launched[0][1] == LaunchOptions(restore="savepoints/42")


@pytest.mark.parametrize("restore", [None, "latest"])
def test_only_a_snapshot_of_someone_else_can_be_claimed(restore: str | None) -> None:
    env = cw.Environment(launcher=FakeLauncher(), checkpoints=cw.Checkpoints(storage="checkpoints"))
    env.from_collection([1]).sink_to(cw.sinks.discard())
    with pytest.raises(ConfigurationError, match="nothing to claim"):
        env.submit("job", restore=restore, claim=True)


def test_restoring_the_latest_needs_a_storage() -> None:
    with pytest.raises(ConfigurationError, match="needs to know where the snapshots are"):
        counting(FakeLauncher()).submit("job", restore="latest")


def test_a_job_id_can_be_given() -> None:
    launcher = FakeLauncher()
    assert counting(launcher).submit("job", job_id="mine").job_id == "mine"
    with pytest.raises(ConfigurationError, match="can't be a job id"):
        counting(launcher).submit("job", job_id="../mine")


def test_a_job_needs_a_name() -> None:
    with pytest.raises(ConfigurationError, match="a job needs a name"):
        counting(FakeLauncher()).submit(" ")


def test_asking_for_more_than_the_job_can_give_is_refused() -> None:
    launcher = FakeLauncher()
    env = counting(launcher, checkpoints=cw.Checkpoints(mode="at_least_once"))
    with pytest.raises(GuaranteeError):
        env.submit("job", require="exactly_once")
    assert launcher.launched == []


def test_a_job_without_a_sink_is_refused() -> None:
    env = cw.Environment(launcher=FakeLauncher())
    env.from_collection([1])
    with pytest.raises(GraphError, match="nothing would happen"):
        env.execute()


def test_an_unread_stream_is_warned_about_where_the_job_is_started() -> None:
    env = counting(FakeLauncher())
    env.from_collection([1], uid="unread")
    with pytest.warns(UserWarning, match='nothing reads the output of source "unread"') as caught:
        env.submit()
    with pytest.warns(UserWarning, match="nothing reads") as caught_in_execute:
        env.execute()
    assert {caught[0].filename, caught_in_execute[0].filename} == {__file__}


def test_explain_shows_an_unfinished_job_too() -> None:
    env = cw.Environment(launcher=FakeLauncher())
    env.from_collection([1], uid="in")
    assert "1. collection(1 values)  [1 task]" in str(env.explain())


def test_collecting_runs_what_the_stream_needs_and_leaves_the_job_as_it_was() -> None:
    launcher = FakeLauncher()
    env = counting(launcher)
    other = env.from_collection([1, 2], uid="other").map(str)
    before = str(env.explain())
    assert other.execute_and_collect() == []
    plan, _ = launcher.launched[0]
    assert [node.uid for vertex in plan.graph.vertices for node in vertex.operators][:1] == ["other"]
    assert str(env.explain()) == before


def test_every_collection_is_a_job_of_its_own() -> None:
    launcher = FakeLauncher()
    numbers = cw.Environment(launcher=launcher).from_collection([1])
    numbers.execute_and_collect()
    numbers.execute_and_collect()
    assert len({plan.job_id for plan, _ in launcher.launched}) == 2


def test_collected_values_come_back_in_the_order_of_arrival() -> None:
    class Delivers(FakeLauncher):
        def launch(self, job, options):  # type: ignore[no-untyped-def]
            sink = job.graph.vertices[-1].operators[-1].connector
            writer = pickle.loads(cloudpickle.dumps(sink)).writer(_writer_context(sink.receive))
            from cutwater.batches import ObjectBatch

            writer.write(ObjectBatch([3, 1, 2]))
            writer.commit(writer.prepare(1))
            return super().launch(job, options)

    assert cw.Environment(launcher=Delivers()).from_collection([3, 1, 2]).execute_and_collect() == [3, 1, 2]


def _writer_context(report: object) -> object:
    from cutwater.connectors.contract import WriterContext
    from cutwater.protocol.ids import AttemptNumber

    return WriterContext("job", "out", 0, 1, AttemptNumber(1), report)


def test_a_failure_of_the_job_is_raised() -> None:
    with pytest.raises(JobFailedError, match="the job failed"):
        counting(FakeLauncher(FAILED)).execute()


def test_an_interrupt_cancels_the_job() -> None:
    launcher = FakeLauncher(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        counting(launcher).execute()
    assert launcher.jobs[0].calls == [("wait", None), "cancel"]


def test_a_handle_speaks_to_its_job() -> None:
    launcher = FakeLauncher()
    job = counting(launcher).submit("word count")
    job.wait("2s")
    assert job.savepoint("s", timeout="3s") == "s/savepoint"
    job.rescale(3)
    assert job.stop() is None
    assert job.stop(savepoint="s", drain=True, timeout="1min") == "s"
    job.cancel()
    assert launcher.jobs[0].calls == [
        ("wait", 2.0),
        ("savepoint", "s", 3.0),
        ("rescale", 3, None),
        ("stop", None, False, None),
        ("stop", "s", True, 60.0),
        "cancel",
    ]
    assert (job.status().state, job.metrics()) == (cw.JobState.RUNNING, ())
    assert repr(job) == "JobHandle('word count', job_id='word-count')"


def test_a_launcher_that_knows_no_dataframes_says_so() -> None:
    with pytest.raises(ConfigurationError, match="FakeLauncher can't read DataFrames"):
        cw.Environment(launcher=FakeLauncher()).from_dataframe(object())


def test_a_dataframe_becomes_the_source_that_the_deployment_stages() -> None:
    class Stages(FakeLauncher):
        def stage_dataframe(self, dataframe: object, staging: str | None) -> object:
            return cw.sources.collection([dataframe])

    env = cw.Environment(launcher=Stages())
    env.from_dataframe("rows", uid="frame")
    assert "frame" in env._dataflow.graph.nodes


def test_a_misspelt_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError) as caught:
        cw.Environment(paralelism=2)  # type: ignore[call-arg]
    assert str(caught.value) == ("Environment has no option 'paralelism'\n  hint:   did you mean 'parallelism'?")


def test_options_can_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        'parallelism = 4\nstate_backend = "rocksdb"\n[checkpoints]\nevery = "5s"\nstorage = "/s"\n'
    )
    env = cw.Environment.from_file(tmp_path / "job.toml", parallelism=2)
    assert (env.options.parallelism, env.options.state_backend, env.options.checkpoints.every_seconds) == (
        2,
        "rocksdb",
        5.0,
    )


def _refused(env: cw.Environment) -> str:
    with pytest.raises(SerializationError) as caught:
        env.submit()
    return str(caught.value)


def test_a_variable_that_cannot_travel_is_named() -> None:
    lock = threading.Lock()

    def tag(value: int) -> int:
        with lock:
            return value

    env = cw.Environment(launcher=FakeLauncher())
    env.from_collection([1]).map(tag, uid="tag").sink_to(cw.sinks.discard())
    message = _refused(env)
    assert 'operator "tag" (test_environment.py:' in message
    assert 'variable "lock" of function "tag" is a _thread.lock' in message
    assert "open(context)" in message


def test_an_attribute_that_cannot_travel_is_named() -> None:
    class Enrich:
        def __init__(self) -> None:
            self.settings = {"guard": threading.Lock()}

        def process(self, record: object, context: object) -> None: ...

    env = cw.Environment(launcher=FakeLauncher())
    env.from_collection([1]).process(Enrich()).sink_to(cw.sinks.discard())
    assert "the entry 'guard' is a _thread.lock" in _refused(env)


def test_a_key_function_that_cannot_travel_is_named() -> None:
    lock = threading.Lock()
    env = cw.Environment(launcher=FakeLauncher())
    env.from_collection([1]).key_by(lambda value: (lock, value)).count().sink_to(cw.sinks.discard())
    assert 'variable "lock" of a lambda is a _thread.lock' in _refused(env)
