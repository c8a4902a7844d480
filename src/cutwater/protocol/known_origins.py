"""What has a source found before?

A source that watches a folder finds the same files at every look, for months, and every snapshot must know them, lest
a restored job reads them again. So each is remembered by a digest of a few bytes, and only while it is there: what has
been gone for many looks in a row is forgotten, and would be new if it came again. One look is not enough: a folder that
isn't mounted just now looks empty.

    known = KnownOrigins.of(["a.txt"])
    "a.txt" in known                            # True
    known.digests.keys() - {digest_of("b.txt")} # what a look that finds b.txt alone reports as gone
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from hashlib import blake2b

DIGEST_BYTES = 10
"""Of a million origins two have the same digest with a probability below 10⁻¹²."""
FORGOTTEN_AFTER_LOOKS = 60


def digest_of(origin: str) -> bytes:
    return blake2b(origin.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class KnownOrigins:
    """A value: never changed once it is made. The digests are in the order in which they were found."""

    digests: dict[bytes, None] = field(default_factory=dict)

    @staticmethod
    def of(origins: Iterable[str]) -> KnownOrigins:
        return KnownOrigins(dict.fromkeys(map(digest_of, origins)))

    @staticmethod
    def unpacked(data: bytes) -> KnownOrigins:
        starts = range(0, len(data), DIGEST_BYTES)
        return KnownOrigins(dict.fromkeys(data[start : start + DIGEST_BYTES] for start in starts))

    def packed(self) -> bytes:
        return b"".join(self.digests)

    def __contains__(self, origin: str) -> bool:
        return digest_of(origin) in self.digests

    def __len__(self) -> int:
        return len(self.digests)


class OriginMemory:
    """What is known now, as looks come in."""

    def __init__(self, known: KnownOrigins) -> None:
        self._digests = dict(known.digests)
        self._known: KnownOrigins | None = known
        #: How many looks in a row have missed what is known.
        self._missed: dict[bytes, int] = {}

    @property
    def known(self) -> KnownOrigins:
        """The same value as long as nothing changes."""
        if self._known is None:
            self._known = KnownOrigins(dict(self._digests))
        return self._known

    def add(self, origin: str) -> bool:
        """False: it was known."""
        digest = digest_of(origin)
        if digest in self._digests:
            return False
        self._digests[digest] = None
        self._known = None
        return True

    def missed(self, gone: Set[bytes], *, needed: Iterable[str]) -> None:
        """A look found these gone, and all others there. What is needed is not forgotten."""
        if not gone and not self._missed:
            return
        self._missed = {digest: self._missed.get(digest, 0) + 1 for digest in gone if digest in self._digests}
        forgotten = {digest for digest, looks in self._missed.items() if looks >= FORGOTTEN_AFTER_LOOKS}
        if forgotten:
            for digest in forgotten - set(map(digest_of, needed)):
                del self._digests[digest]
                del self._missed[digest]
                self._known = None
