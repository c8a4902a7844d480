"""What the command line says counts more than the program, and the program more than a file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import cutwater as cw
from cutwater.api.launching import LaunchOptions, launches_told_to
from cutwater.api.overrides import Overrides, keys, overridden_by, overrides, parse_settings
from cutwater.config import Control, OptionValues, StateBackend
from cutwater.errors import ConfigurationError
from cutwater.protocol.modes import CheckpointMode
from cutwater.protocol.restart import ExponentialDelay, FixedDelay, NoRestart

from .launchers import FakeLauncher


def options_of(*settings: str, **program: Any) -> cw.JobOptions:
    with overridden_by(Overrides(parse_settings(settings))):
        return cw.Environment(**program).options


def test_the_command_line_counts_more_than_the_program() -> None:
    found = options_of("parallelism=4", "chaining=false", "slot_timeout=5min", parallelism=2, spare_slots=1)
    assert (found.parallelism, found.chaining, found.spare_slots) == (4, False, 1)
    assert found.slot_timeout_seconds == 300


def test_the_program_counts_more_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('parallelism = 1\nspare_slots = 1\nstate_memory = "1MB"\n')
    with overridden_by(Overrides(parse_settings(["parallelism=3"]))):
        found = cw.Environment.from_file(file, parallelism=2, spare_slots=2).options
    assert (found.parallelism, found.spare_slots, found.state_memory_bytes) == (3, 2, 1024 * 1024)


def test_options_of_checkpoints_change_one_by_one() -> None:
    program = cw.Checkpoints(every="1s", storage="/program", retain=7)
    found = options_of("checkpoints.every=5s", "checkpoints.retain=2", checkpoints=program).checkpoints
    assert (found.every, found.storage, found.retain) == (timedelta(seconds=5), "/program", 2)


def test_a_backend_and_the_storage_that_it_needs_are_set_together() -> None:
    found = options_of("state_backend=rocksdb", "checkpoints.storage=/s")
    assert found.state_backend is StateBackend.ROCKSDB


@pytest.mark.parametrize("off", ["checkpoints.mode=none", "checkpoints.every=none"])
def test_checkpoints_are_turned_off_and_on(off: str) -> None:
    assert not options_of(off, checkpoints=cw.Checkpoints(every="1s")).checkpoints.enabled
    found = options_of("checkpoints.every=2s", checkpoints=cw.Checkpoints(mode="none")).checkpoints
    assert (found.every_seconds, found.mode) == (2, CheckpointMode.EXACTLY_ONCE)


def test_restart_strategies_are_called_by_name() -> None:
    found = options_of("restart=fixed_delay", "restart.attempts=7", "restart.delay=100ms").restart
    assert found == FixedDelay(7, 0.1)
    assert options_of("restart=none", restart=cw.restart.fixed_delay()).restart == NoRestart()
    grows = options_of("restart=exponential_delay", "restart.jitter=0.5", "restart.attempts=none").restart
    assert isinstance(grows, ExponentialDelay)
    assert (grows.jitter, grows.attempts) == (0.5, None)


def test_control_and_tls_are_turned_off_or_changed() -> None:
    assert options_of("control=none").control is None
    assert options_of("control.port=8081", control=None).control == Control(port=8081)
    assert options_of("tls=auto").tls == "auto"
    assert options_of("tls=none", tls="auto").tls is None


def test_a_file_with_a_secret_takes_the_place_of_the_programs_secret(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("another secret that is long enough")
    program = cw.Checkpoints(secret="the secret of the program itself")
    found = options_of(f"checkpoints.secret_file={file}", checkpoints=program).checkpoints.signing_secret
    expected = cw.Checkpoints(secret_file=str(file)).signing_secret
    assert found is not None
    assert expected is not None
    assert found.signature(b"text", about="a") == expected.signature(b"text", about="a")


@pytest.mark.parametrize(
    ("settings", "fact", "hint"),
    [
        (["paralelism=4"], "there is no option 'paralelism'", "did you mean 'parallelism'?"),
        (["every=5s"], "there is no option 'every'", "did you mean 'checkpoints.every'?"),
        (["checkpoints.evry=5s"], "there is no option 'checkpoints.evry'", "did you mean 'checkpoints.every'?"),
        (["checkpoints=5s"], "'checkpoints' has options of its own", "set one of checkpoints.every"),
        (["parallelism"], "'parallelism' sets nothing", "write --set key=value"),
        (["parallelism=many"], "parallelism must be a number, not 'many'", ""),
        (["chaining=perhaps"], "chaining is true or false, not 'perhaps'", ""),
        (["checkpoints.secret=x"], "a secret can't be set here", "--set checkpoints.secret_file"),
        (["restart=fixed_dely"], "there is no restart strategy 'fixed_dely'", "did you mean 'fixed_delay'?"),
        (["restart.delay=1s"], "'restart.delay' needs to know which strategy is meant", "add --set restart=…"),
        (["restart=none", "restart.delay=1s"], "the restart strategy 'none' has no option 'delay'", "it has none"),
        (["restart=fixed_delay", "restart.dely=1s"], "has no option 'dely'", "did you mean 'delay'?"),
        (["tls=auto", "tls.key=k"], "tls=auto contradicts options of 'tls'", ""),
    ],
)
def test_what_can_not_be_set_is_refused(settings: list[str], fact: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_settings(settings)
    assert fact in refused.value.fact
    assert refused.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("setting", "fact"),
    [
        ("parallelism=0", "parallelism must be a whole number of 1 or more"),
        ("checkpoints.every=fast", "every is not a duration: 'fast'"),
        ("checkpoints.mode=exactly_onse", "mode is 'exactly_onse'"),
        ("state_backend=rockdb", "state_backend is 'rockdb'"),
    ],
)
def test_values_are_checked_by_the_options_themselves(setting: str, fact: str) -> None:
    with pytest.raises(ConfigurationError, match=fact):
        options_of(setting)


def test_every_option_of_a_job_can_be_set() -> None:
    own = {key.partition(".")[0] for key in keys()}
    assert own == set(OptionValues.__annotations__)


def test_restore_counts_more_than_the_programs() -> None:
    launcher = FakeLauncher()
    env = cw.Environment(launcher=launcher)
    env.from_collection([1]).sink_to(cw.sinks.discard())
    with overridden_by(Overrides(restore="savepoints/7")):
        env.submit("job", restore="savepoints/1")
    with overridden_by(Overrides(restore="none")):
        env.submit("job", restore="savepoints/1")
    with overridden_by(Overrides()):
        env.submit("job", restore="savepoints/1")
    assert [options for _, options in launcher.launched] == [
        LaunchOptions(restore="savepoints/7"),
        LaunchOptions(restore=None),
        LaunchOptions(restore="savepoints/1"),
    ]


def test_outside_nothing_is_overridden_and_use_is_noticed() -> None:
    given = Overrides(parse_settings(["parallelism=3"]))
    with overridden_by(given):
        assert not given.used
        cw.Environment()
    assert given.used
    assert overrides().options == {}
    assert cw.Environment().options.parallelism == 1


def test_listeners_hear_of_each_job_that_is_launched() -> None:
    env = cw.Environment(launcher=FakeLauncher())
    env.from_collection([1]).sink_to(cw.sinks.discard())
    heard: list[str] = []
    with launches_told_to(lambda job: heard.append(job.job_id)):
        env.submit("first")
    env.submit("second")
    assert heard == ["first"]
