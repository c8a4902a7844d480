"""Which browser walks the dashboard? Debian's Chromium: no server, but installed like one."""

from __future__ import annotations

from typing import ClassVar

from servers.packages import Debian, Package, program


class Chromium:
    name: ClassVar[str] = "chromium"
    packages: ClassVar[tuple[Package, ...]] = (Debian("chromium", "chromium"),)
    opt_in: ClassVar[bool] = False

    #: Root has no sandbox, tests no graphics; and nothing is asked of the internet.
    options: ClassVar[tuple[str, ...]] = (
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
    )

    @classmethod
    def path(cls) -> str:
        return program("chromium")
