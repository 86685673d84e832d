"""The error of a request for the controller while the brokers name none, as when they start."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiokafka.errors import NodeNotReadyError


@contextmanager
def controller_errors() -> Iterator[None]:
    """Raise NodeNotReadyError where aiokafka finds no controller, of which it reads the number unchecked."""
    try:
        yield
    except AttributeError as error:
        if error.name != "nodeId":
            raise
        raise NodeNotReadyError("the brokers have no controller yet") from error
