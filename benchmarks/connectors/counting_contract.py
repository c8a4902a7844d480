"""What is a program told that counts messages of one topic per key into another? The standard library only."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

PER_RECORD = "per record"
PER_BATCH = "per batch"
#: A result for each key that changed, held back for up to a second.
PER_SECOND = "per second"


@dataclass(frozen=True, slots=True)
class Count:
    """The program runs until it is killed. Results are JSON objects with `key` and `n`, under their key."""

    servers: str
    source: str
    target: str
    #: An empty folder for checkpoints.
    scratch: str
    #: A result for each record, for each key and batch, or for each key and second.
    variant: str = PER_RECORD
    parallelism: int = 2
    checkpoint_seconds: float = 1.0
    jars: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def count_from_arguments() -> Count:
    return Count(**json.loads(sys.argv[1]))
