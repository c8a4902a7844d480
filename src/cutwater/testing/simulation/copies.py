"""How does a record become bytes, so that two processes never share an object?"""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle


def bytes_of(value: Any) -> bytes:
    """Fast where that is possible; a class of a main program needs the slow way."""
    try:
        return pickle.dumps(value)
    except Exception:  # pickle raises what it likes
        return bytes(cloudpickle.dumps(value))
