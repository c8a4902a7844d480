"""`python -m servers.install [names…]`: which servers can be had on this machine?

Installs what is missing and prints a line for each server. One that can't be installed doesn't stop the others: the
reason goes to `.servers/missing.json`, and its tests are skipped with it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from enum import StrEnum

from rich.console import Console

from servers.catalogue import INSTALLABLE
from servers.packages import CACHE, Installable, NotInstallable, Package

MISSING = CACHE / "missing.json"


class Outcome(StrEnum):
    PRESENT = "present"
    INSTALLED = "installed"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m servers.install", description="Installs servers for the tests.")
    usual = [name for name, server in INSTALLABLE.items() if not server.opt_in]
    left_out = f"without any: all but {', '.join(name for name in INSTALLABLE if name not in usual)}"
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(INSTALLABLE)}; {left_out}")
    names = parser.parse_args().names or usual
    unknown = [name for name in names if name not in INSTALLABLE]
    if unknown:
        parser.error(f"no such server: {', '.join(unknown)}")
    install(names, Console(highlight=False, soft_wrap=True))


def install(names: Sequence[str], console: Console) -> None:
    missing = reasons()
    for name in names:
        missing.pop(name, None)
        try:
            outcome = str(install_packages(INSTALLABLE[name].packages))
        except NotInstallable as problem:
            missing[name] = str(problem)
            outcome = f"missing: {problem}"
        console.print(f"{name:<16} {outcome}", markup=False)
    CACHE.mkdir(exist_ok=True)
    MISSING.write_text(json.dumps(missing, indent=2) + "\n")


def install_packages(packages: Sequence[Package]) -> Outcome:
    absent = [package for package in packages if not package.is_there()]
    for package in absent:
        package.install()
    return Outcome.INSTALLED if absent else Outcome.PRESENT


def reason_why_missing(server: type[Installable]) -> str | None:
    """None when it is there."""
    if all(package.is_there() for package in server.packages):
        return None
    name = f" {server.name}" if server.opt_in else ""
    return reasons().get(server.name, f"not installed: run python -m servers.install{name}")


def reasons() -> dict[str, str]:
    """As the last installation left them, by the name of the server."""
    try:
        found: dict[str, str] = json.loads(MISSING.read_text())
    except FileNotFoundError:
        return {}
    return found


if __name__ == "__main__":
    main()
