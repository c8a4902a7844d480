"""`cutwater dashboard JOB`: opens the page of a running job, signed in.

The address that is opened ends in a code that is good once and for a minute. It stands behind the `#`, which browsers
send to no server; the token itself is in no address.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from typing import Annotated

import typer
from rich.console import Console

from cutwater.cli.showing import Job


def dashboard(
    job: Job, *, do_open: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser.")] = True
) -> None:
    """Opens the dashboard of a job in your browser."""
    from cutwater.serving.client import find_job

    client = find_job(job)
    made = client.session_code()
    address = client.registration.page
    signed_in = f"{address}/#{made.code}"
    console = Console(highlight=False, soft_wrap=True)
    if do_open and _opened(signed_in):
        console.print(f"the dashboard is at {address}")
        return
    console.print(signed_in, markup=False)
    console.print(f"This address signs you in, once, within {made.seconds:.0f} seconds.")


def _opened(address: str) -> bool:
    """Without a screen there may still be a browser for terminals: the page needs more than that."""
    has_screen = sys.platform != "linux" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
    try:
        return has_screen and webbrowser.open(address)
    except webbrowser.Error:
        return False
