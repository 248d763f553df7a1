"""The names of Kafka's headers: text by the protocol, but a producer may have sent any bytes."""

from typing import Self


class HeaderName(str):
    """A name whose bytes are not UTF-8: invalid bytes are lone surrogates, and :meth:`encode` restores them."""

    @classmethod
    def of(cls, name: bytes) -> Self:
        """The name of these bytes."""
        return cls(name, "utf-8", "surrogateescape")

    def encode(self, *_: str) -> bytes:
        """The bytes that the producer sent."""
        return super().encode(errors="surrogateescape")
