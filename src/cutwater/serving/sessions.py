"""Who has signed in on the page?

A token in a cookie would live as long as the job, and one in a URL would be in histories and logs. So the token, or a
code that is good once and for a minute, is exchanged for a session: random, kept in memory only, and over after half a
day. A session may do what its token may.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from cutwater.serving.tokens import Access, same

SESSION_SECONDS = 12 * 3600.0
SESSIONS_MAX = 48
CODE_SECONDS = 60.0
CODES_MAX = 16


@dataclass(frozen=True, slots=True)
class _Secret:
    value: str
    access: Access
    ends_at_seconds: float


class Sessions:
    """For one thread. When there are too many, the oldest ends."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sessions: list[_Secret] = []
        self._codes: list[_Secret] = []

    def begin(self, access: Access) -> str:
        """What the cookie holds."""
        return self._added(self._sessions, SESSIONS_MAX, access, SESSION_SECONDS)

    def access_of(self, session: str) -> Access | None:
        """None: it is unknown or over."""
        found = self._found(self._sessions, session)
        return None if found is None else found.access

    def end(self, session: str) -> None:
        found = self._found(self._sessions, session)
        if found is not None:
            self._sessions.remove(found)

    def new_code(self, access: Access) -> str:
        return self._added(self._codes, CODES_MAX, access, CODE_SECONDS)

    def redeem(self, code: str) -> Access | None:
        """A code is good once."""
        found = self._found(self._codes, code)
        if found is None:
            return None
        self._codes.remove(found)
        return found.access

    def _added(self, secrets_of_a_kind: list[_Secret], at_most: int, access: Access, seconds: float) -> str:
        made = _Secret(secrets.token_urlsafe(32), access, self._now() + seconds)
        secrets_of_a_kind.append(made)
        del secrets_of_a_kind[:-at_most]
        return made.value

    def _found(self, known: list[_Secret], given: str) -> _Secret | None:
        """Looks at all of them: it takes equally long, whichever it is."""
        known[:] = [each for each in known if each.ends_at_seconds > self._now()]
        found = [each for each in known if same(given, each.value)]
        return found[0] if found else None
