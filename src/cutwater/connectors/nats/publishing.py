"""How are many messages published, so that it is known that the stream has them all?

The client waits for every acknowledgement by a future of its own. Here all of a part come to one subscription, which
counts them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from cutwater.connectors.failures import PeerError
from cutwater.connectors.nats.session import Session

Message: TypeAlias = "tuple[bytes, str | None]"
"""A payload, and the id by which the broker recognises it; None: it doesn't."""

#: Messages that are on their way at once.
PART_MAX = 2_000


class _Acknowledgement(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    error: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Acknowledgement).decode


class Publisher:
    """Publishes to one subject by one session."""

    def __init__(self, session: Session, subject: str) -> None:
        self._session = session
        self._subject = subject
        self._inbox: str | None = None
        self._missing = 0
        self._all_there: asyncio.Future[None] | None = None

    async def publish(self, messages: Sequence[Message]) -> None:
        """Returns when the stream has them; `PeerError`: it is unknown which."""
        if self._inbox is None:
            inbox = self._session.connection.new_inbox()
            await self._session.connection.subscribe(inbox, cb=self._acknowledged)
            self._inbox = inbox
        for begin in range(0, len(messages), PART_MAX):
            await self._publish_part(self._inbox, messages[begin : begin + PART_MAX])

    async def _publish_part(self, inbox: str, messages: Sequence[Message]) -> None:
        self._missing = len(messages)
        self._all_there = asyncio.get_running_loop().create_future()
        publish = self._session.connection.publish
        for payload, message_id in messages:
            headers = None if message_id is None else {"Nats-Msg-Id": message_id}
            await publish(self._subject, payload, reply=inbox, headers=headers)
        await self._session.answered(self._all_there)

    async def _acknowledged(self, message: Any) -> None:
        assert self._all_there is not None
        if self._all_there.done():
            return
        if not message.data:  # a status: there are no responders
            self._refused("no stream takes this subject")
            return
        answer = _decode(message.data)
        if answer.error is not None:
            self._refused(str(answer.error.get("description", answer.error)))
            return
        self._missing -= 1
        if self._missing == 0:
            self._all_there.set_result(None)

    def _refused(self, detail: str) -> None:
        assert self._all_there is not None
        error = PeerError(f'JetStream refuses messages of subject "{self._subject}"', detail=detail)
        self._all_there.set_exception(error)
