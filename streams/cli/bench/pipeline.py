"""`railsight bench pipeline`: everything from Kafka to ClickHouse under the load of a fabric of any size."""

from streams.wire.errors import Misconfigured


def pipeline() -> None:
    """Measure the whole pipeline under a fabric's load."""
    raise Misconfigured("this benchmark is not written yet")
