"""What do we tell someone whose function, peer or file failed?"""

from __future__ import annotations

from cutwater.errors import OperationsError, UserFunctionError
from cutwater.user_frames import NEXT_LINE, places_of


class PeerError(OperationsError):
    """The other end of a connection refused, or went away."""

    retryable = True
    #: The other end asked to be left alone for so long.
    pause_seconds: float = 0.0


def user_function_failed(what: str, error: BaseException, *, given: str) -> UserFunctionError:
    """Names the user's own lines and what the function was given."""
    lines = [*places_of(error, None), f"given {given}"]
    return UserFunctionError(f"{what} raised {type(error).__name__}: {error}", detail=NEXT_LINE.join(lines))
