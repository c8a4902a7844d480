"""How does a job come to have a control service, and how does that end?

A web server on a thread of its own, with a socket that is bound before anything else: whoever may not have the port
hears of it when the job starts. Nothing of it runs on the coordinator's thread.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import threading

import uvicorn

from cutwater.api.launching import RunningJob
from cutwater.config import Control
from cutwater.errors import ConfigurationError
from cutwater.serving.app import application
from cutwater.serving.certificates import fingerprint_of
from cutwater.serving.endpoints import Served
from cutwater.serving.operations import RunningOperations
from cutwater.serving.registry import this_host
from cutwater.serving.tokens import Tokens

log = logging.getLogger("cutwater.serving")

#: A shell that asked for the job's end comes back to hear how it went; on a busy machine not at once.
OUTCOME_SECONDS = 10.0
#: Answers that are on their way get there, and pages hear of the end by themselves.
LINGER_SECONDS = 2.0
CLOSING_SECONDS = 3.0
CONNECTIONS_MAX = 512
#: Of a service that listens at all addresses of its machine.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class ControlService:
    """Serves one job. Its methods are for any thread."""

    def __init__(self, job: RunningJob, options: Control) -> None:
        self.tokens = tokens_of(options)
        self.fingerprint = fingerprint_of(options)
        self._operations = RunningOperations()
        self._socket = _bound(options)
        host, port = self._socket.getsockname()[:2]
        #: For processes of this machine, and for people.
        self.address = self._address(_LOOPBACK.get(host, host), port)
        self.page = self._address(this_host() if host in _LOOPBACK else host, port)
        self._served = Served(job, self._operations)
        config = uvicorn.Config(
            application(self._served, self.tokens),
            log_config=None,
            access_log=False,
            lifespan="off",
            loop="asyncio",
            http="h11",
            ws="none",
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=1,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
        )
        config.load()  # the certificate now, as it was looked at, and not when the thread comes to it
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name=f"cutwater-control-{job.job_id}", daemon=True)
        self._thread.start()

    def linger(self) -> None:
        """Returns when everyone who asked or watched has heard how it ended, or after a moment."""
        self._served.pace.hurry()
        self._operations.wait_until_read(OUTCOME_SECONDS)
        self._served.listeners.wait_until_gone(LINGER_SECONDS)

    def close(self) -> None:
        self._served.pace.hurry()
        self._server.should_exit = True
        self._thread.join(CLOSING_SECONDS)

    def _address(self, host: str, port: int) -> str:
        scheme = "http" if self.fingerprint is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("the control service at %s has ended; the job goes on", self.address)
        finally:
            self._socket.close()

    async def _serve(self) -> None:
        looking = asyncio.create_task(self._served.memory.look_now_and_then(self._served.job.status))
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            looking.cancel()


def tokens_of(options: Control) -> Tokens:
    """Those of the files; without one, a token of this run that only the registration knows."""
    change = secrets.token_urlsafe(32) if options.token_file is None else _read_token(options.token_file)
    read = None if options.read_only_token_file is None else _read_token(options.read_only_token_file)
    return Tokens(change, read)


def _read_token(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            token = file.read().strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f'the token of "{path}" can\'t be read', detail=str(error)) from error
    if len(token) < 16:
        raise ConfigurationError(f'the token of "{path}" is too short', hint="use at least 16 characters")
    return token


def _bound(options: Control) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((options.host, options.port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise ConfigurationError(
            f"the control service can't listen at {options.host}:{options.port}",
            detail=str(error),
            hint="choose another port, or 0 for any that is free",
        ) from error
    return listening
