"""Which lines of a traceback are the user's own?"""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path
from typing import Final

NEXT_LINE: Final = "\n          "  # under the first word behind "  detail: "
_FRAMES_MAX = 3
_CUTWATER = str(Path(__file__).resolve().parent) + os.sep
_LIBRARIES = ("<frozen ", *{sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})


def places_of(error: BaseException | None, function: object) -> list[str]:
    """Where in the author's own code it happened, innermost first; else where the function was written."""
    frames = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(None if error is None else error.__traceback__)
        if not frame.f_code.co_filename.startswith(_CUTWATER)
    ]
    # A user may call into a library that fails; the line to look at is the user's. Unless the job is a library itself.
    own = [frame for frame in frames if not frame[0].startswith(_LIBRARIES)] or frames
    if own:
        return [f"at {file}:{line} in {name}" for file, line, name in reversed(own[-_FRAMES_MAX:])]
    code = getattr(function, "__code__", None)
    return [f"in the function written at {code.co_filename}:{code.co_firstlineno}"] if code else []
