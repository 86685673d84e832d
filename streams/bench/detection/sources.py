"""The sources of the simulated fabric, and what comes where one of them is missing."""

from collections.abc import Callable, Iterable, Iterator

from streams.wire.models import Event, Message, Source

SOURCES: dict[str, Callable[[Message], bool]] = {
    "gnmi": lambda message: _source(message) is Source.SOURCE_GNMI,
    "nic": lambda message: _source(message) is Source.SOURCE_NIC,
    "host": lambda message: _source(message) is Source.SOURCE_HOST,
    "kernel": lambda message: isinstance(message, Event) and message.source is Source.SOURCE_HOST,
}
"""What comes of each: `kernel` is what a host's agent hears of its kernel, `host` all that the agent says."""


def _source(message: Message) -> Source | None:
    return getattr(message, "source", None)


def without_source(
    batches: Iterable[tuple[int, list[Message]]], name: str, from_ns: int
) -> Iterator[tuple[int, list[Message]]]:
    """What comes, but nothing of one source from a moment of arrival on; all of it where `name` is empty."""
    is_gone = SOURCES.get(name)
    for at_ns, batch in batches:
        if is_gone is None or at_ns <= from_ns:
            yield at_ns, batch
        else:
            yield at_ns, [message for message in batch if not is_gone(message)]
