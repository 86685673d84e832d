"""One message of samples on its way into a block."""

from typing import NamedTuple

from streams.store.rows.row_builder import SourcedMessage
from streams.store.sample_layout import SampleLayout
from streams.wire.models import Samples


class PendingSamples(NamedTuple):
    """A message, where it came from, and what its columns mean."""

    origin: SourcedMessage
    message: Samples
    layout: SampleLayout
