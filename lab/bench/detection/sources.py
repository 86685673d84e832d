"""Removes one source from the messages of a simulated fabric."""

from collections.abc import Callable, Iterable, Iterator

from streams.wire.models import Event, Message, ProbeReport, Source

SOURCES: dict[str, Callable[[Message], bool]] = {
    "gnmi": lambda message: _source(message) is Source.SOURCE_GNMI,
    "nic": lambda message: _source(message) is Source.SOURCE_NIC,
    "host": lambda message: _source(message) is Source.SOURCE_HOST,
    "probe": lambda message: isinstance(message, ProbeReport),
    "kernel": lambda message: isinstance(message, Event) and message.source is Source.SOURCE_HOST,
}
"""The messages of each source: `kernel` are the events of a host's kernel log, `host` are all of its agent."""


def _source(message: Message) -> Source | None:
    return getattr(message, "source", None)


def without_source(
    batches: Iterable[tuple[int, list[Message]]], name: str, from_ns: int
) -> Iterator[tuple[int, list[Message]]]:
    """Yield the batches without one source after an arrival time; if `name` is empty, all of them."""
    is_removed = SOURCES.get(name)
    for at_ns, batch in batches:
        if is_removed is None or at_ns <= from_ns:
            yield at_ns, batch
        else:
            yield at_ns, [message for message in batch if not is_removed(message)]
