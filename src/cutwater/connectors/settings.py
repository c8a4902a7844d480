"""Is what the user asked of a connector possible at all?

Factories check their settings when the job is written, in the driver: the mistake shows where it was made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from cutwater.connectors.file_system import HDFS, SCHEMES, is_on_server, is_registered
from cutwater.errors import ConfigurationError


def check_positive(option: str, value: float, *, whole: bool = True) -> None:
    """Refuses what isn't a number above zero."""
    kinds: tuple[type, ...] = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < float("inf"):
        raise ConfigurationError(
            f"{option} must be a positive {'whole ' if whole else ''}number",
            detail=f"it is {value!r}",
        )


def check_name(option: str, value: str) -> None:
    """Refuses what can't be the name of anything."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{option} must be a non-empty string", detail=f"it is {value!r}")


def check_callable(option: str, value: Callable[..., Any]) -> None:
    """Refuses what can't be called."""
    if not callable(value):
        raise ConfigurationError(
            f"{option} must be callable",
            detail=f"it is {value!r}",
            hint="pass the function itself, not what it returns",
        )


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuses what isn't one of the choices."""
    if value not in choices:
        raise ConfigurationError(
            f"{option} {value!r} is unknown", hint="one of " + ", ".join(repr(choice) for choice in choices)
        )


def check_delimiter(delimiter: str) -> None:
    """Refuses what can't separate the cells of CSV."""
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
        raise ConfigurationError(
            "delimiter must be one ASCII character, no quote and no end of line",
            detail=f"it is {delimiter!r}",
            hint='e.g. ";" or "\\t"',
        )


def check_address(host: str, port: int) -> None:
    """Refuses what can't be a TCP address."""
    if not isinstance(host, str) or not host:
        raise ConfigurationError("host must be a name or an address", detail=f"it is {host!r}")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise ConfigurationError("port must be a number from 1 to 65535", detail=f"it is {port!r}")


def absolute_path(path: str | os.PathLike[str]) -> str:
    """The path as every process understands it: of this machine, or a URL of a file system that connectors know."""
    if isinstance(path, str) and is_on_server(path):
        return _path_on_server(path)
    return mounted_path(path)


def mounted_path(path: str | os.PathLike[str]) -> str:
    """The path as every process understands it; `file:` URIs are paths, schemes that are not registered are refused."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ConfigurationError("a path must be a non-empty string or a Path", detail=f"it is {path!r}")
    text = os.fspath(path)
    if is_registered(text):
        return text.rstrip("/")
    if "://" in text:
        uri = urlsplit(text)
        if uri.scheme != "file" or uri.netloc not in ("", "localhost"):
            known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            raise ConfigurationError(
                f"{text!r} is not on a file system that this connector can use",
                detail=f"scheme {uri.scheme!r}; files of sources and sinks may also be on {known}",
                hint="read other storage with Spark: env.from_dataframe(spark.read…)",
            )
        text = unquote(uri.path)
    return os.path.abspath(text)


def _path_on_server(url: str) -> str:
    scheme, _, rest = url.partition("://")
    root, *parts = rest.rstrip("/").split("/")
    if not root and scheme != HDFS:  # whose configuration may name a file system
        raise ConfigurationError(f"{url!r} names no bucket", hint=f"write {scheme}://bucket/folder")
    if "" in parts or "." in parts or ".." in parts:
        raise ConfigurationError(f"{url!r} is not a plain path", detail='it has an empty part, "." or ".."')
    return url.rstrip("/")


def check_text(option: str, value: str) -> None:
    """Refuses what isn't a string with something in it."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{option} must be a non-empty string", detail=f"it is {value!r}")


def check_names(option: str, value: Sequence[str], *, required: bool = True, allowed: bool = True) -> tuple[str, ...]:
    """Names of columns, each once; refuses a single string, whose letters would be taken for names."""
    if isinstance(value, str) or not all(isinstance(name, str) and name for name in value):
        raise ConfigurationError(
            f"{option} must be a sequence of names", detail=f"it is {value!r}", hint=f'e.g. {option}=("id",)'
        )
    if len(set(value)) != len(value):
        raise ConfigurationError(f"{option} names something twice", detail=f"it is {tuple(value)!r}")
    if required and not value:
        raise ConfigurationError(f"{option} is missing", hint=f'e.g. {option}=("id",)')
    if value and not allowed:
        raise ConfigurationError(f"{option} has no use here", hint='only delivery="upsert" has a key')
    return tuple(value)
