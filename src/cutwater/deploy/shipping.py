"""Which code must travel to the slots, and how?

The source of every loaded module that the executors can't have from an installation: the user's own modules, and
Cutwater itself when it runs from a source tree. Packages travel whole. What is installed (site-packages) is expected
on the executors; so are C extensions.
"""

from __future__ import annotations

import hashlib
import io
import site
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

NEVER_SHIPPED = frozenset({"__main__", "__mp_main__", "pyspark", "py4j"})
SKIPPED_SUFFIXES = frozenset({".pyc", ".pyo", ".so", ".pyd"})
PACKAGE_BYTES_MAX = 64 * 1024 * 1024
ZIP_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Shipment:
    """A zip file in memory; equal code has an equal digest."""

    archive: bytes
    digest: str


def pack(modules: Mapping[str, ModuleType] | None = None) -> Shipment:
    """Packs what the slots need of these modules; by default of everything that is loaded."""
    files = _files_to_ship(dict(sys.modules if modules is None else modules))
    buffer = io.BytesIO()
    digest = hashlib.sha256()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in sorted(files.items()):
            content = path.read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
            archive.writestr(zipfile.ZipInfo(name, ZIP_TIME), content, zipfile.ZIP_DEFLATED)
    return Shipment(buffer.getvalue(), digest.hexdigest()[:16])


def _files_to_ship(modules: dict[str, ModuleType]) -> dict[str, Path]:
    """Archive name → file."""
    installed = _installation_folders()
    files: dict[str, Path] = {}
    whole_packages: set[str] = set()
    for name, module in sorted(modules.items()):
        top = name.partition(".")[0]
        if top in NEVER_SHIPPED or top in whole_packages:
            continue
        path = _source_of(module)
        if path is None or _is_within(path, installed):
            continue
        if name == top and path.name == "__init__.py":
            whole_packages.add(top)
            files.update(_package_files(top, path.parent))
        else:
            files[_archive_name(name, path)] = path
    return files


def _source_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py"):
        return None
    path = Path(file).resolve()
    return path if path.is_file() else None


def _installation_folders() -> list[Path]:
    places = sysconfig.get_paths()
    folders = [places[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    return [Path(folder).resolve() for folder in folders]


def _is_within(path: Path, folders: Iterable[Path]) -> bool:
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    return any(path.is_relative_to(folder) for folder in folders)


def _archive_name(module_name: str, path: Path) -> str:
    folder = module_name.replace(".", "/")
    return f"{folder}/__init__.py" if path.name == "__init__.py" else f"{folder}.py"


def _package_files(name: str, folder: Path) -> dict[str, Path]:
    """Source and data of a package; of one that is more data than code, the source only."""
    paths = [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in SKIPPED_SUFFIXES and not _is_hidden(path.relative_to(folder))
    ]
    if sum(path.stat().st_size for path in paths) > PACKAGE_BYTES_MAX:
        paths = [path for path in paths if path.suffix == ".py"]
    return {f"{name}/{path.relative_to(folder).as_posix()}": path for path in paths}


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in path.parts)
