"""What do we tell someone whose function, peer or file failed?"""

from __future__ import annotations

import traceback

from cutwater.errors import OperationsError, UserFunctionError


class PeerError(OperationsError):
    """The other end of a connection refused, or went away."""

    retryable = True


def user_function_failed(what: str, error: BaseException, *, given: str) -> UserFunctionError:
    """Names the user's own line and what the function was given."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f", {frames[-1].filename}:{frames[-1].lineno}" if len(frames) > 1 else ""
    return UserFunctionError(f"{what} raised {type(error).__name__}: {error}", detail=f"given {given}{where}")
