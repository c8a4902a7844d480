"""Which tokens are there, and what may each do?"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from enum import StrEnum


class Access(StrEnum):
    READ = "read"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Tokens:
    """`change` allows everything, `read` only to look."""

    change: str = field(repr=False)
    read: str | None = field(default=None, repr=False)

    def access_of(self, given: str) -> Access | None:
        """None: nothing is allowed. Takes as long for a token that is nearly right as for any other."""
        may_change = same(given, self.change)
        may_read = self.read is not None and same(given, self.read)
        if may_change:
            return Access.CHANGE
        return Access.READ if may_read else None


def same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())
