"""`python -m benchmarks.large_state`: a job on Spark whose state is larger than the memory that its slot may use.

Every key gets a value of a kilobyte that can't be compressed; then every key comes again, and its value must be what it
was. The function tells the most memory that its process ever had.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import cutwater as cw

VALUE_BYTES = 1_024


def value_of(key: int) -> bytes:
    return hashlib.shake_128(key.to_bytes(8, "big")).digest(VALUE_BYTES)


class Remember:
    """The first time a key is stored, the second time it is compared."""

    def open(self, context: Any) -> None:
        self._value = context.value_state("value")
        self._seen = 0

    def process(self, key: int, context: Any) -> Iterator[tuple[str, int]]:
        stored = self._value.value()
        if stored is None:
            self._value.update(value_of(key))
        else:
            yield ("right" if stored == value_of(key) else "wrong", 1)
        self._seen += 1
        if self._seen % 100_000 == 0:
            yield "peak_rss_bytes", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


def main() -> None:
    options = parse()
    keys = options.megabytes * 1_000_000 // VALUE_BYTES
    storage = tempfile.mkdtemp(prefix="cutwater-large-")
    try:
        env = cw.Environment(
            state_backend="rocksdb",
            state_memory=options.state_memory,
            checkpoints=cw.Checkpoints(every="5s", storage=storage, retain=1),
            restart=cw.restart.none(),
        )
        numbers = cw.sources.generator(lambda index: index % keys, count=2 * keys, splits=1)
        stream = env.from_source(numbers, uid="numbers").key_by(lambda key: key).process(Remember(), uid="remember")
        began = time.perf_counter()
        results = stream.execute_and_collect()
        seconds = time.perf_counter() - began
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    right = sum(number for name, number in results if name == "right")
    peak = max(number for name, number in results if name == "peak_rss_bytes")
    print(
        f"state {keys * VALUE_BYTES / 1e9:.2f} GB in {keys:,} keys, {2 * keys / seconds:,.0f} records/s: "
        f"{right:,} right, {len([1 for name, _ in results if name == 'wrong'])} wrong; "
        f"the slot's peak memory {peak / 1e6:.0f} MB"
    )
    assert right == keys
    assert peak <= options.slot_megabytes * 1e6, "more memory than the slot has"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_state", description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=2_048, help="of state")
    parser.add_argument("--slot-megabytes", type=int, default=512, help="that the slot's process may have in memory")
    parser.add_argument("--state-memory", default="128MB", help="what RocksDB may use of the slot's memory")
    return parser.parse_args()


if __name__ == "__main__":
    main()
