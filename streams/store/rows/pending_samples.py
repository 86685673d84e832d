"""Defines a samples message waiting in a block."""

from typing import NamedTuple

from streams.store.rows.row_builder import SourcedMessage
from streams.store.sample_layout import SampleLayout
from streams.wire.models import Samples


class PendingSamples(NamedTuple):
    """A message, its origin in Kafka, and the layout of its columns."""

    origin: SourcedMessage
    message: Samples
    layout: SampleLayout
