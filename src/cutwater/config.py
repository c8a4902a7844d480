"""What can be set about a job, what are the defaults, and which settings contradict each other?

Durations are given as people write them ("1s"), checked when the options are made, and read through properties whose
names end in the unit. A name that does not exist is answered with the nearest one that does.
"""

from __future__ import annotations

import functools
import inspect
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, cast

from cutwater.durations import Duration, describe_seconds, parse_duration
from cutwater.errors import ConfigurationError
from cutwater.protocol.modes import CheckpointMode
from cutwater.protocol.restart import RestartSpecification, Unspecified
from cutwater.signatures import Secret, secret_from_file, secret_of
from cutwater.sizes import parse_size

T = TypeVar("T")
Kind = TypeVar("Kind", bound=type)


def refuses_unknown_options(kind: Kind) -> Kind:
    """Makes a class answer an unknown keyword with a ConfigurationError that names the nearest known one.

    One that is missing is named, too.
    """
    make: Callable[..., None] = kind.__init__  # type: ignore[misc]
    parameters = {name: given for name, given in inspect.signature(make).parameters.items() if name != "self"}
    needed = [name for name, given in parameters.items() if given.default is given.empty]

    @functools.wraps(make)
    def checked(self: Any, *arguments: Any, **options: Any) -> None:
        refuse_unknown(options, parameters, of=kind.__name__)
        missing = [name for name in needed[len(arguments) :] if name not in options]
        if missing:
            raise ConfigurationError(f"{kind.__name__} needs the option {missing[0]!r}")
        make(self, *arguments, **options)

    kind.__init__ = checked  # type: ignore[misc]
    return kind


def refuse_unknown(names: Iterable[str], known: Iterable[str], *, of: str) -> None:
    """Raises when a name is not among the known ones."""
    choices = list(known)
    for name in names:
        if name not in choices:
            nearest = get_close_matches(name, choices, n=1)
            raise ConfigurationError(
                f"{of} has no option {name!r}",
                hint=f"did you mean {nearest[0]!r}?" if nearest else f"the options are {', '.join(choices)}",
            )


class StateBackend(StrEnum):
    """Where keyed state lives while the job runs."""

    MEMORY = "memory"
    FILESYSTEM = "filesystem"
    ROCKSDB = "rocksdb"


@refuses_unknown_options
@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """How often the job takes a snapshot, what that promises, and where snapshots are kept.

    `Checkpoints(mode="none")` and `Checkpoints(every=None)` both mean: no checkpoints.
    """

    #: Time from one trigger to the next. Left out: a second, or none when the mode is "none".
    every: Duration | None = "default"
    #: "exactly_once", "at_least_once" or "none". Left out: "exactly_once", or "none" when `every` is None.
    mode: CheckpointMode | str = "default"
    #: A folder that every slot reaches ("s3://bucket/folder", "file:///…"); None: snapshots stay in the driver.
    storage: str | None = None
    #: A checkpoint that takes longer is given up.
    timeout: Duration = "10min"
    #: At least this long from the end of one checkpoint to the start of the next.
    min_pause: Duration = "0s"
    #: How many may be under way at a time.
    max_concurrent: int = 1
    #: How many may fail in a row before the job does.
    tolerable_failures: int = 0
    #: How many completed ones are kept.
    retain: int = 3
    #: What becomes of them when the job is cancelled: "retain" or "delete".
    on_cancel: str = "retain"
    #: Signs every snapshot, and lets the job restore only what was signed with it; text or bytes.
    secret: Secret | bytes | str | None = field(default=None, repr=False)
    #: A file, on the driver's machine, with the secret in it.
    secret_file: str | None = None

    def __post_init__(self) -> None:
        mode_given, every_given = self.mode != "default", self.every != "default"
        every, mode = self.every, self.mode
        if not mode_given:
            mode = CheckpointMode.NONE if every is None else CheckpointMode.EXACTLY_ONCE
        mode = _one_of(CheckpointMode, mode, option="mode")
        if not every_given:
            every = None if mode is CheckpointMode.NONE else "1s"
        if every is not None and mode is CheckpointMode.NONE:
            raise ConfigurationError(
                f'checkpoints every {every} contradict mode "none"',
                hint='leave out `every`, or choose the mode "exactly_once" or "at_least_once"',
            )
        if every is None and mode is not CheckpointMode.NONE:
            raise ConfigurationError(
                f'mode "{mode}" needs checkpoints, but `every` is None',
                hint='give a time such as every="1s", or leave out the mode',
            )
        _set(self, "mode", mode)
        _set(self, "every", None if every is None else _positive_duration(every, option="every"))
        _set(self, "timeout", _positive_duration(self.timeout, option="timeout"))
        _set(self, "min_pause", _duration(self.min_pause, option="min_pause"))
        _check_count(self.max_concurrent, option="max_concurrent", at_least=1)
        _check_count(self.tolerable_failures, option="tolerable_failures", at_least=0)
        _check_count(self.retain, option="retain", at_least=1)
        if self.on_cancel not in ("retain", "delete"):
            raise ConfigurationError(f"on_cancel can't be {self.on_cancel!r}", hint='choose "retain" or "delete"')
        if self.max_concurrent > 1 and self.min_pause_seconds > 0:
            raise ConfigurationError(
                f"{self.max_concurrent} concurrent checkpoints contradict a pause between them",
                hint='set max_concurrent=1 or min_pause="0s"',
            )
        if self.storage is not None and (not isinstance(self.storage, str) or not self.storage.strip()):
            raise ConfigurationError(f"storage is not a path or an address: {self.storage!r}")
        if self.storage is not None and "://" not in self.storage:
            # The slots resolve it too, and their working folder is another one.
            _set(self, "storage", os.path.abspath(os.path.expanduser(self.storage)))
        self._find_secret()

    def _find_secret(self) -> None:
        if self.secret is not None and self.secret_file is not None and not isinstance(self.secret, Secret):
            raise ConfigurationError("there are two secrets", hint="give either `secret` or `secret_file`")
        if self.secret is not None:
            _set(self, "secret", secret_of(self.secret))
        elif self.secret_file is not None:
            _set(self, "secret", secret_from_file(self.secret_file))

    @property
    def signing_secret(self) -> Secret | None:
        return None if self.secret is None else secret_of(self.secret)

    @property
    def checkpoint_mode(self) -> CheckpointMode:
        return CheckpointMode(self.mode)

    @property
    def enabled(self) -> bool:
        return self.checkpoint_mode is not CheckpointMode.NONE

    @property
    def every_seconds(self) -> float | None:
        return None if self.every is None else parse_duration(self.every)

    @property
    def timeout_seconds(self) -> float:
        return parse_duration(self.timeout)

    @property
    def min_pause_seconds(self) -> float:
        return parse_duration(self.min_pause)


@refuses_unknown_options
@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files with which driver and slots prove to each other who they are; the same paths on every machine."""

    certificate: str
    key: str
    ca: str

    def __post_init__(self) -> None:
        for name in ("certificate", "key", "ca"):
            path = getattr(self, name)
            if not isinstance(path, str) or not path:
                raise ConfigurationError(f"the TLS file {name!r} is not a path: {path!r}")


@refuses_unknown_options
@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Where the job's control service listens, and who may use it.

    On this machine alone by default, with a token that only the user who started the job can read.
    """

    host: str = "127.0.0.1"
    #: 0: any that is free.
    port: int = 0
    #: A file on the driver's machine with a token for everything. None: one is made for each run.
    token_file: str | None = None
    #: A file with a second token, for those who may only look.
    read_only_token_file: str | None = None
    #: PEM files, for HTTPS.
    certificate: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        _check_kind(self.host, str, option="host", example='"127.0.0.1"')
        _check_count(self.port, option="port", at_least=0)
        if self.port > 65_535:
            raise ConfigurationError(f"there is no port {self.port}")
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("a certificate and its key go together", hint="give both, or none for HTTP")
        if not self.is_loopback and self.token_file is None:
            raise ConfigurationError(
                f"a control service at {self.host} needs a token of yours",
                detail="others on the network reach it",
                hint="give token_file=…, a file that only you can read, with a token of at least 16 characters",
            )

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


@refuses_unknown_options
@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Everything about a job but its dataflow. Pickled with the job and sent to the slots."""

    #: Tasks per operator, unless the operator says otherwise.
    parallelism: int = 1
    #: Key groups: the most tasks a keyed operator can ever have. None: chosen from the parallelism.
    max_parallelism: int | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    state_backend: StateBackend | str = StateBackend.MEMORY
    #: What the backend "rocksdb" may take of a slot's memory for blocks and buffers of all its operators.
    state_memory: int | str = "256MB"
    #: Where a slot keeps state on its local disk, and copies of it for a quick restart. None: the temporary folder.
    local_folder: str | None = None
    #: What happens after a failure; made by the functions of `cutwater.restart`.
    restart: RestartSpecification = field(default_factory=Unspecified)
    #: Idle slots kept ready to take over from a lost one.
    spare_slots: int = 0
    #: How long to wait for all slots before giving up.
    slot_timeout: Duration = "60s"
    #: A slot that opens and restores one operator for longer than this is taken to hang, and replaced.
    deploy_timeout: Duration = "1h"
    heartbeat_interval: Duration = "1s"
    #: A slot, or a connection between two, that is silent for this long counts as lost; so does a slot that has not
    #: dropped the tasks of a failed attempt after this long.
    heartbeat_timeout: Duration = "30s"
    #: Fuse neighbouring operators into direct calls.
    chaining: bool = True
    #: A record is buffered for at most this long before it is sent.
    buffer_timeout: Duration = "10ms"
    #: State of a task up to this size travels inside the acknowledgement instead of as a file of its own.
    inline_state_bytes_max: int = 64 * 1024
    #: How connections between the processes of the job are encrypted: "auto" with a certificate that the driver makes
    #: for the job, `TlsFiles` with your own. None: not at all; connections then only need a secret of the job.
    tls: TlsFiles | Literal["auto"] | None = None
    #: Where the job can be watched and steered from outside. None: nowhere.
    control: Control | None = field(default_factory=Control)
    #: Sends traces of checkpoints and recoveries, over OTLP as OpenTelemetry's variables (OTEL_…) say.
    tracing: bool = False

    def __post_init__(self) -> None:
        _check_count(self.parallelism, option="parallelism", at_least=1)
        if self.max_parallelism is not None:
            _check_count(self.max_parallelism, option="max_parallelism", at_least=1)
            if self.max_parallelism < self.parallelism:
                raise ConfigurationError(
                    f"parallelism {self.parallelism} is more than max_parallelism {self.max_parallelism}",
                    hint="max_parallelism is the number of key groups, and a task needs at least one",
                )
        _check_kind(self.checkpoints, Checkpoints, option="checkpoints", example='cw.Checkpoints(every="1s")')
        _set(self, "state_backend", _one_of(StateBackend, self.state_backend, option="state_backend"))
        _set(self, "state_memory", parse_size(self.state_memory, option="state_memory"))
        if self.state_backend is StateBackend.ROCKSDB and self.checkpoints.enabled and self.checkpoints.storage is None:
            raise ConfigurationError(
                'the state backend "rocksdb" needs a storage for its snapshots',
                hint='set checkpoints=cw.Checkpoints(storage="file:///…"), a folder that every slot reaches',
            )
        if self.restart == Unspecified():
            _set(self, "restart", Unspecified(has_storage=self.checkpoints.storage is not None))
        if not callable(getattr(self.restart, "start", None)):
            raise ConfigurationError(
                f"restart can't be {self.restart!r}", hint="give cw.restart.fixed_delay(attempts=3) or one of its kind"
            )
        _check_count(self.spare_slots, option="spare_slots", at_least=0)
        for name in ("slot_timeout", "deploy_timeout", "heartbeat_interval", "heartbeat_timeout"):
            _set(self, name, _positive_duration(getattr(self, name), option=name))
        _set(self, "buffer_timeout", _duration(self.buffer_timeout, option="buffer_timeout"))
        if self.heartbeat_timeout_seconds <= self.heartbeat_interval_seconds:
            raise ConfigurationError(
                "heartbeat_timeout must be longer than heartbeat_interval",
                detail=f"{self.heartbeat_timeout_seconds:g}s and {self.heartbeat_interval_seconds:g}s",
                hint="allow for several missed heartbeats",
            )
        _check_kind(self.chaining, bool, option="chaining", example="True or False")
        _check_count(self.inline_state_bytes_max, option="inline_state_bytes_max", at_least=0)
        if self.tls is not None and self.tls != "auto":
            _check_kind(self.tls, TlsFiles, option="tls", example='"auto" or cw.TlsFiles(certificate=…, key=…, ca=…)')
        _check_kind(self.tracing, bool, option="tracing", example="True or False")
        if self.control is not None:
            _check_kind(self.control, Control, option="control", example="cw.Control(port=8081), or None for none")

    @property
    def state_memory_bytes(self) -> int:
        return parse_size(self.state_memory)

    @property
    def slot_timeout_seconds(self) -> float:
        return parse_duration(self.slot_timeout)

    @property
    def deploy_timeout_seconds(self) -> float:
        return parse_duration(self.deploy_timeout)

    @property
    def heartbeat_interval_seconds(self) -> float:
        return parse_duration(self.heartbeat_interval)

    @property
    def heartbeat_timeout_seconds(self) -> float:
        return parse_duration(self.heartbeat_timeout)

    @property
    def buffer_timeout_seconds(self) -> float:
        return parse_duration(self.buffer_timeout)


class OptionValues(TypedDict, total=False):
    """The fields of `JobOptions` as keywords; their meaning and defaults are there."""

    parallelism: int
    max_parallelism: int | None
    checkpoints: Checkpoints
    state_backend: StateBackend | str
    state_memory: int | str
    local_folder: str | None
    restart: RestartSpecification
    spare_slots: int
    slot_timeout: Duration
    deploy_timeout: Duration
    heartbeat_interval: Duration
    heartbeat_timeout: Duration
    chaining: bool
    buffer_timeout: Duration
    inline_state_bytes_max: int
    tls: TlsFiles | Literal["auto"] | None
    control: Control | None
    tracing: bool


#: Options that hold a secret, or say where one lies.
_NOT_TOLD = frozenset({"secret", "secret_file", "token_file", "read_only_token_file", "key"})


def configuration_of(options: JobOptions) -> dict[str, Any]:
    """The options as plain data that anyone may read who may look at the job: without secrets and where they lie."""
    return {name: _plain(value) for name, value in _told(options)}


def _told(options: Any) -> Iterable[tuple[str, Any]]:
    return ((each.name, getattr(options, each.name)) for each in fields(options) if each.name not in _NOT_TOLD)


def _plain(value: Any) -> Any:
    match value:
        case timedelta():
            return describe_seconds(value.total_seconds())
        case StrEnum():
            return value.value
        case str():
            return _without_credentials(value)
        case None | bool() | int() | float():
            return value
        case _ if is_dataclass(value) and not isinstance(value, type):
            told = {name: _plain(inner) for name, inner in _told(value)}
            # Of what has several kinds, such as restart strategies, the kind matters.
            return (
                told if isinstance(value, Checkpoints | TlsFiles | Control) else {"kind": type(value).__name__, **told}
            )
        case _:
            return type(value).__name__


def _without_credentials(text: str) -> str:
    """Addresses of storages may have them: "s3://key:secret@bucket/folder?…". In "abfs://container@account" is none."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    place, question, _ = rest.partition("?")
    before, _, after = place.rpartition("@")
    return f"{scheme}://{after if ':' in before else place}{question}{'…' if question else ''}"


def load_options(path: str | Path) -> OptionValues:
    """Options from a TOML file; the tables `[checkpoints]`, `[tls]` and `[control]` hold the options of those classes.

    `tls = "auto"` is no table.
    """
    try:
        loaded: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"the options file {str(path)!r} can't be read", detail=str(error)) from error
    except (ValueError, RecursionError) as error:  # also a file that is no text, a number that is too long
        raise ConfigurationError(f"the options file {str(path)!r} is not TOML", detail=str(error)) from error
    refuse_unknown(loaded, OptionValues.__annotations__, of=f"the options file {str(path)!r}")
    if "restart" in loaded:
        raise ConfigurationError(
            f"the options file {str(path)!r} can't hold a restart strategy",
            hint="pass it in the program: Environment.from_file(path, restart=cw.restart.fixed_delay())",
        )
    makers: Mapping[str, type[Any]] = {"checkpoints": Checkpoints, "tls": TlsFiles, "control": Control}
    for name, make in makers.items():
        if name in loaded and (name, loaded[name]) != ("tls", "auto"):
            _check_kind(loaded[name], dict, option=name, example=f"a table: [{name}]")
            loaded[name] = make(**loaded[name])
    return cast(OptionValues, loaded)


def _set(options: object, name: str, value: object) -> None:
    """Frozen means: after `__post_init__`."""
    object.__setattr__(options, name, value)


def _one_of(kind: type[T], value: Any, *, option: str) -> T:
    try:
        return kind(value)  # type: ignore[call-arg]
    except ValueError:
        choices = [str(choice) for choice in kind]  # type: ignore[attr-defined]
        nearest = get_close_matches(str(value), choices, n=1)
        raise ConfigurationError(
            f"{option} is {value!r}, which is not one of {', '.join(choices)}",
            hint=f"did you mean {nearest[0]!r}?" if nearest else "",
        ) from None


def _duration(value: Duration, *, option: str) -> timedelta:
    """In a form that says what it is: options are checked again when they are copied."""
    return timedelta(seconds=parse_duration(value, option=option))


def _positive_duration(value: Duration, *, option: str) -> timedelta:
    duration = _duration(value, option=option)
    if not duration:
        raise ConfigurationError(f"{option} must be longer than zero")
    return duration


def _check_count(value: object, *, option: str, at_least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ConfigurationError(f"{option} must be a whole number of {at_least} or more, not {value!r}")


def _check_kind(value: object, kind: Any, *, option: str, example: str) -> None:
    if not isinstance(value, kind):
        raise ConfigurationError(f"{option} can't be {value!r}", hint=f"give {example}")
