"""One message of samples on its way into a block."""

from typing import NamedTuple

from streams.store.build import Taken
from streams.store.layout import Layout
from streams.wire.models import Samples


class Reading(NamedTuple):
    """A message, where it came from, and what its columns mean."""

    taken: Taken
    message: Samples
    layout: Layout
