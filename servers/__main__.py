"""`python -m servers kafka postgres …`: servers to try an example with, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import time
from contextlib import ExitStack

from rich.console import Console

from servers.catalogue import SERVERS
from servers.install import reason_why_missing


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m servers", description="Starts servers, and stops them on Ctrl-C.")
    parser.add_argument("names", nargs="+", metavar="name", choices=list(SERVERS), help=f"of {', '.join(SERVERS)}")
    names = dict.fromkeys(parser.parse_args().names)
    for name in names:
        reason = reason_why_missing(SERVERS[name])
        if reason is not None:
            parser.error(f"{name}: {reason}")
    # Ended from outside, it stops its servers as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False, soft_wrap=True)
    try:
        with ExitStack() as running:
            for name in names:
                began = time.monotonic()
                server = running.enter_context(SERVERS[name]())
                seconds = time.monotonic() - began
                console.print(f"{name:<16} {server.how_to_connect}   (ready in {seconds:.1f} s)", markup=False)
            console.print("Ctrl-C stops them and removes their data.")
            signal.pause()
    except KeyboardInterrupt:
        console.print("stopped")


if __name__ == "__main__":
    main()
