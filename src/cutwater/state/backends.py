"""Which state backend does a name stand for?"""

from __future__ import annotations

from collections.abc import Callable

from cutwater.errors import ConfigurationError
from cutwater.state.contract import KeyedBackend, KeyedBackendSettings
from cutwater.state.heap import HeapBackend

BackendFactory = Callable[[KeyedBackendSettings], KeyedBackend]


def _rocksdb(settings: KeyedBackendSettings) -> KeyedBackend:
    from cutwater.state.rocksdb.backend import RocksBackend  # its library is loaded only where it is used

    return RocksBackend(settings)


_FACTORIES: dict[str, BackendFactory] = {"memory": HeapBackend, "filesystem": HeapBackend, "rocksdb": _rocksdb}


def backend_factory(name: str) -> BackendFactory:
    """Makes backends of this name; raises `ConfigurationError` for a name that is unknown or not available."""
    factory = _FACTORIES.get(name)
    if factory is not None:
        return factory
    known = ", ".join(f'"{known}"' for known in _FACTORIES)
    raise ConfigurationError(f'there is no state backend "{name}"', hint=f"choose one of {known}")


def open_backend(name: str, settings: KeyedBackendSettings) -> KeyedBackend:
    """An empty backend of this name for one operator of one task."""
    return backend_factory(name)(settings)
