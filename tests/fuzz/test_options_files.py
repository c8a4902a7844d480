"""Does any file of options lead to anything but options or one of our errors?"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz.conftest import EXPECTED, FUZZ
from tests.fuzz.mutations import damaged, mutated

from cutwater.config import JobOptions, load_options

OPTIONS = {
    "parallelism": 2,
    "max_parallelism": 128,
    "state_backend": "rocksdb",
    "state_memory": "256MB",
    "local_folder": "state",
    "spare_slots": 1,
    "slot_timeout": "60s",
    "heartbeat_interval": "1s",
    "heartbeat_timeout": "30s",
    "chaining": True,
    "buffer_timeout": "10ms",
    "inline_state_bytes_max": 65536,
    "checkpoints": {"every": "1s", "mode": "exactly_once", "storage": "folder", "timeout": "10min", "retain": 3},
    "tls": {"certificate": "a.pem", "key": "b.pem", "ca": "c.pem"},
}


def toml(options: Any) -> str:
    """What of it can be said in TOML."""
    if not isinstance(options, dict):
        return f"x = {_value(options)}\n"
    plain = [f"{json.dumps(name)} = {_value(value)}" for name, value in options.items() if not isinstance(value, dict)]
    tables = [f"[{json.dumps(name)}]\n{toml(value)}" for name, value in options.items() if isinstance(value, dict)]
    return "\n".join([*plain, *tables, ""])


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_value(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return "nan" if value is None else json.dumps(value)


def load(root: Path, data: bytes) -> None:
    path = root / "options.toml"
    path.write_bytes(data)
    with contextlib.suppress(*EXPECTED):
        JobOptions(**load_options(path))


@FUZZ
@given(options=mutated(OPTIONS))
def test_changed_options(watch: Path, options: Any):
    load(watch, toml(options).encode("utf-8", "surrogatepass"))


@FUZZ
@given(data=damaged(toml(OPTIONS).encode()) | st.binary(max_size=200))
@example(data=b"x = " + b"[" * 50_000)
@example(data=b"checkpoints = 5")
@example(data=b"parallelism = 1" + b"0" * 10_000)
def test_a_damaged_options_file(watch: Path, data: bytes):
    load(watch, data)
