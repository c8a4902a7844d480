"""How often may a record count after a failure?"""

from __future__ import annotations

from enum import StrEnum


class CheckpointMode(StrEnum):
    """The guarantee that checkpoints give to state."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
    NONE = "none"
