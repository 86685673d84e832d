"""One message of samples on its way into a block."""

from dataclasses import dataclass

from streams.store.build import Taken
from streams.store.layout import Layout
from streams.wire.models import Samples


@dataclass(frozen=True, slots=True)
class Reading:
    """A message, where it came from, and what its columns mean."""

    taken: Taken
    message: Samples
    layout: Layout
