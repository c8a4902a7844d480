from __future__ import annotations

import pickle
import re
from dataclasses import FrozenInstanceError, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import cutwater as cw
from cutwater import config
from cutwater.config import (
    Checkpoints,
    Control,
    JobOptions,
    OptionValues,
    TlsFiles,
    configuration_of,
    load_options,
)
from cutwater.durations import Duration, describe_seconds, parse_duration
from cutwater.errors import ConfigurationError
from cutwater.protocol.modes import CheckpointMode
from cutwater.protocol.restart import FixedDelay


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("100ms", 0.1),
        ("1s", 1),
        ("1.5 s", 1.5),
        ("5min", 300),
        ("2h", 7200),
        ("1d", 86400),
        (0, 0),
        (timedelta(minutes=1), 60),
        ("250us", 0.00025),
    ],
)
def test_a_duration_is_read_as_people_write_it(duration: Duration, seconds: float) -> None:
    assert parse_duration(duration) == pytest.approx(seconds)


@pytest.mark.parametrize("duration", [1000, 0.5])
def test_a_number_without_a_unit_is_refused(duration: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"every has no unit: {duration}") as refused:
        Checkpoints(every=duration)
    assert f'"{duration}ms" or "{duration}s"' in refused.value.hint


def test_options_may_be_copied() -> None:
    options = JobOptions(checkpoints=Checkpoints(every="100ms", timeout="1min"), slot_timeout="5s")
    assert replace(options, parallelism=2).slot_timeout_seconds == 5
    assert replace(options.checkpoints, retain=1).every_seconds == 0.1


@pytest.mark.parametrize(
    "duration",
    ["", "1", "s", "1 second ago", "1 month", "30min 1h", "-1s", "1m", "1s1s", True, None, [1], -1, float("nan")],
)
def test_what_is_no_duration_is_refused_by_the_options_name(duration: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^every "):
        parse_duration(duration, option="every")


@pytest.mark.parametrize("written", ["100ms", "1s", "5min", "2h", "0s", "90s", "1d"])
def test_seconds_are_described_as_they_are_written(written: str) -> None:
    assert describe_seconds(parse_duration(written)) == written


def test_checkpoints_have_the_defaults_of_the_design() -> None:
    checkpoints = cw.Checkpoints()
    assert checkpoints.checkpoint_mode is CheckpointMode.EXACTLY_ONCE
    assert (checkpoints.every_seconds, checkpoints.timeout_seconds, checkpoints.min_pause_seconds) == (1, 600, 0)
    assert (checkpoints.max_concurrent, checkpoints.tolerable_failures, checkpoints.retain) == (1, 0, 3)


@pytest.mark.parametrize("checkpoints", [cw.Checkpoints(mode="none"), cw.Checkpoints(every=None)])
def test_no_interval_and_no_mode_mean_the_same(checkpoints: cw.Checkpoints) -> None:
    assert (checkpoints.checkpoint_mode, checkpoints.every_seconds, checkpoints.enabled) == (
        CheckpointMode.NONE,
        None,
        False,
    )


def test_equal_durations_make_equal_options() -> None:
    assert cw.Checkpoints(every="1s") == cw.Checkpoints(every=timedelta(seconds=1))


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"evry": "1s"}, "Checkpoints has no option 'evry'"),
        ({"every": "1s", "mode": "none"}, 'checkpoints every 1s contradict mode "none"'),
        ({"every": None, "mode": "exactly_once"}, 'mode "exactly_once" needs checkpoints, but `every` is None'),
        ({"mode": "exactly-once"}, "mode is 'exactly-once', which is not one of exactly_once, at_least_once, none"),
        ({"every": 0}, "every must be longer than zero"),
        ({"timeout": "soon"}, "timeout is not a duration: 'soon'"),
        ({"on_cancel": "maybe"}, "on_cancel can't be 'maybe'"),
        ({"retain": 0}, "retain must be a whole number of 1 or more, not 0"),
        ({"max_concurrent": 2, "min_pause": "1s"}, "2 concurrent checkpoints contradict a pause between them"),
        ({"storage": ""}, "storage is not a path or an address: ''"),
    ],
)
def test_impossible_checkpoints_are_refused(options: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        cw.Checkpoints(**options)
    assert caught.value.fact == fact


def test_a_misspelt_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError) as caught:
        cw.Checkpoints(evry="1s")  # type: ignore[call-arg]
    assert caught.value.hint == "did you mean 'every'?"


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"parallelism": 0}, "parallelism must be a whole number of 1 or more, not 0"),
        ({"parallelism": 4, "max_parallelism": 2}, "parallelism 4 is more than max_parallelism 2"),
        ({"state_backend": "rockdb"}, "state_backend is 'rockdb', which is not one of memory, filesystem, rocksdb"),
        ({"state_backend": "rocksdb"}, 'the state backend "rocksdb" needs a storage for its snapshots'),
        ({"state_memory": "much"}, "state_memory is not a size: 'much'"),
        ({"state_memory": -1}, "state_memory is not a size: -1"),
        ({"checkpoints": "1s"}, "checkpoints can't be '1s'"),
        ({"restart": "always"}, "restart can't be 'always'"),
        ({"heartbeat_timeout": "1s"}, "heartbeat_timeout must be longer than heartbeat_interval"),
        ({"tls": "cert.pem"}, "tls can't be 'cert.pem'"),
        ({"chaining": "no"}, "chaining can't be 'no'"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        JobOptions(**options)
    assert caught.value.fact == fact


def test_options_are_frozen_and_survive_pickling() -> None:
    options = JobOptions(parallelism=2, tls=cw.TlsFiles(certificate="c", key="k", ca="a"))
    assert pickle.loads(pickle.dumps(options)) == options
    with pytest.raises(FrozenInstanceError):
        options.parallelism = 3  # type: ignore[misc]


def test_the_keywords_of_an_environment_are_the_fields_of_the_options() -> None:
    assert set(OptionValues.__annotations__) == {field.name for field in fields(JobOptions)}


def test_a_file_with_an_unknown_option_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("paralelism = 2\n")
    with pytest.raises(ConfigurationError, match="did you mean 'parallelism'"):
        load_options(tmp_path / "job.toml")


@pytest.mark.parametrize(
    ("text", "fact"), [("a = ", "is not TOML"), ('restart = "x"', "can't hold a restart"), (None, "can't be read")]
)
def test_an_unusable_file_is_refused(tmp_path: Path, text: str | None, fact: str) -> None:
    if text is not None:
        (tmp_path / "job.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=fact):
        load_options(tmp_path / "job.toml")


def test_restart_strategies_take_durations_as_people_write_them() -> None:
    assert cw.restart.fixed_delay(attempts=2, delay="500ms").delay_seconds == 0.5
    assert cw.restart.failure_rate(max_failures=1, interval="1min", delay="1s").interval_seconds == 60
    assert cw.restart.exponential_delay(initial="1s", maximum="2min").max_seconds == 120
    assert cw.restart.none() == cw.restart.none()


def test_a_relative_storage_is_the_drivers_folder_for_everyone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cw.Checkpoints(storage="checkpoints/").storage == str(tmp_path / "checkpoints")
    assert cw.Checkpoints(storage="s3://bucket/checkpoints").storage == "s3://bucket/checkpoints"


def test_the_configuration_is_plain_data() -> None:
    options = JobOptions(
        parallelism=2,
        checkpoints=Checkpoints(every="500ms", storage="s3://bucket/jobs"),
        restart=FixedDelay(3, 1.5),
        control=None,
    )
    told = configuration_of(options)
    assert msgspec.json.decode(msgspec.json.encode(told)) == told
    assert (told["parallelism"], told["heartbeat_timeout"], told["control"]) == (2, "30s", None)
    assert told["restart"] == {"kind": "FixedDelay", "attempts": 3, "delay_seconds": 1.5}
    checkpoints = told["checkpoints"]
    assert (checkpoints["every"], checkpoints["mode"], checkpoints["storage"]) == (
        "500ms",
        "exactly_once",
        "s3://bucket/jobs",
    )


def test_the_configuration_has_no_secret_and_does_not_say_where_one_lies(tmp_path: Path) -> None:
    tokens = tmp_path / "control-token"
    tokens.write_text("a-token-of-enough-letters")
    hidden = "hidden-0123456789abcdef"
    options = JobOptions(
        checkpoints=Checkpoints(storage=f"s3://user:{hidden}@bucket/jobs?secret_key={hidden}", secret=hidden),
        tls=TlsFiles(certificate="node.pem", key=f"{hidden}.key", ca="ca.pem"),
        control=Control(
            token_file=str(tokens), read_only_token_file=f"/{hidden}", certificate="driver.pem", key=f"{hidden}.key"
        ),
    )
    told = configuration_of(options)
    text = str(told)
    assert hidden not in text
    assert str(tokens) not in text
    assert told["checkpoints"]["storage"] == "s3://bucket/jobs?…"
    assert told["tls"] == {"certificate": "node.pem", "ca": "ca.pem"}
    assert told["control"]["certificate"] == "driver.pem"


def test_an_option_whose_name_sounds_like_a_secret_is_not_told() -> None:
    suspicious = re.compile("secret|token|password|key$")
    for kind in (JobOptions, Checkpoints, TlsFiles, Control):
        assert {each.name for each in fields(kind) if suspicious.search(each.name)} <= config._NOT_TOLD


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("s3://key:sec/ret@bucket/jobs", "s3://bucket/jobs"),
        ("s3://bucket/jobs@2?access_key=a&secret_key=b", "s3://bucket/jobs@2?…"),
        ("abfss://jobs@account.dfs.core.windows.net/x", "abfss://jobs@account.dfs.core.windows.net/x"),
    ],
)
def test_a_storage_is_told_without_credentials(address: str, told: str) -> None:
    assert configuration_of(JobOptions(checkpoints=Checkpoints(storage=address)))["checkpoints"]["storage"] == told
