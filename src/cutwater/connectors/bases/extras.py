"""Is the client of this connector installed?"""

from __future__ import annotations

import importlib
from types import ModuleType

from cutwater.errors import ConfigurationError


def client(module: str, *, extra: str) -> ModuleType:
    """Imports what only users of this connector need; names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f'the connector "{extra}" needs the package {module.partition(".")[0]}, which is not installed',
            detail=str(error),
            hint=f"pip install \"cutwater[{extra}]\", in the driver's environment and in the workers'",
        ) from error
