"""What a command sets up for its process is taken back after each test, because here it runs in ours."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Restore the root logger, the levels of libraries, and structlog."""
    root = logging.getLogger()
    handlers, level, configured = root.handlers[:], root.level, structlog.get_config()
    levels = {name: logging.getLogger(name).level for name in list(logging.root.manager.loggerDict)}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**configured)
    for name in list(logging.root.manager.loggerDict):
        logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))
