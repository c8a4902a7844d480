"""What travels between coordinator and slot besides messages? Signs of life, and the end of the line."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGE = b"m"
SIGN_OF_LIFE = b"h"
HANG_UP = b"x"


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """A dead process is noticed by its broken connection, at once; these are for machines and networks that hang."""

    sign_of_life_seconds: float = 1.0
    silence_seconds_max: float = 30.0
