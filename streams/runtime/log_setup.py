"""Sets up the log of a process: one line per event on standard error, as text on a terminal, as JSON elsewhere.

Libraries' records of the standard library from WARNING on have the same format. In JSON, the values of `name=%s` in
such records are fields of that name, like structlog's.
"""

import logging
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from typing import TextIO

import structlog

from streams.instrument.text import clean

FORMATS = ("auto", "text", "json")
"""auto is text on a terminal, and json elsewhere."""
_CONVERSION = re.compile(r"(?:(\w+)=)?%(%|[-+ #0]*\d*(?:\.\d+)?[a-zA-Z])")
_RESERVED = {"event", "level", "logger", "timestamp"}

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class MissingTopicFilter(logging.Filter):
    """Logs a topic that is missing in Kafka once, with the next step; the client logs it ten times a second."""

    def __init__(self) -> None:
        super().__init__()
        self._reported: set[object] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record; replaces the text of each topic's first record."""
        if not (record.name.startswith("aiokafka") and str(record.msg).startswith("Topic %s not found")):
            return True
        topic = record.args[0] if isinstance(record.args, tuple) and record.args else ""
        if topic in self._reported:
            return False
        self._reported.add(topic)
        record.msg = "Kafka has no topic %s; create the topics with `railsight topics`"
        return True


def add_named_arguments(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Add fields for the named arguments (`topic=%s`) of a record of the standard library."""
    arguments = event.pop("positional_args", None)
    if not isinstance(arguments, tuple):
        return event
    names = [found[1] for found in _CONVERSION.finditer(str(event["_record"].msg)) if found[2] != "%"]
    for name, value in zip(names, arguments, strict=False):
        if name and name not in _RESERVED:
            event.setdefault(name, value)
    return event


def clean_texts(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Clean the texts of a record: a terminal would obey their control characters, and a line break would be a line.

    The renderer prints values of other types by repr(), which escapes them.
    """
    return {name: clean(value) if isinstance(value, str) else value for name, value in event.items()}


def print_exception(out: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """Print a traceback, whose message may be a text from outside."""
    lines = "".join(traceback.format_exception(*exc_info)).splitlines()
    out.write("".join(f"{clean(line)}\n" for line in lines))


def configure_logging(
    level: str, stream: TextIO | None = None, muted: Iterable[str] = (), log_format: str = "auto"
) -> None:
    """Make all loggers of this process except `muted` write to `stream` (default: standard error)."""
    out = sys.stderr if stream is None else stream
    is_text = log_format == "text" or (log_format == "auto" and out.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.typing.Processor] = (
        [clean_texts, structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=print_exception)]
        if is_text
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setLevel(LEVELS[level])
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared if is_text else [*shared, add_named_arguments],
            pass_foreign_args=not is_text,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG)
    # Libraries log every fetch and every rebalance at INFO; our own modules log under their own names.
    for name in ("aiokafka", "asyncio", "faust", "mode", "grpc", "urllib3", "clickhouse_connect"):
        logging.getLogger(name).setLevel(max(LEVELS[level], logging.WARNING))
    handler.addFilter(MissingTopicFilter())
    # Filters at the handler, because some libraries set their own levels when they are imported.
    silenced = tuple(muted)
    handler.addFilter(lambda record: record.name.split(".")[0] not in silenced)


# Faust logs under the name of the module with its app's class.
_LIBRARIES = ("aiokafka", "faust", "mode", "kafka", "streams.runtime.faust_app")
_AGAIN_S = 10.0
_FORGET_AT = 1000


class RepeatFilter(logging.Filter):
    """Passes a message of a library once in ten seconds, whatever its arguments are.

    While the brokers are unavailable, clients and Faust log the same messages, 120 lines a second.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._next: dict[tuple[str, int, str], float] = {}

    @property
    def known(self) -> int:
        """The number of retained messages."""
        return len(self._next)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        if not record.name.startswith(_LIBRARIES):
            return True
        # Faust formats some of its messages itself; then only the text after the first words differs.
        key = record.name, record.levelno, str(record.msg)[:40]
        now = self._now_s()
        if now < self._next.get(key, 0.0):
            return False
        if len(self._next) > _FORGET_AT:
            self._next.clear()
        self._next[key] = now + _AGAIN_S
        return True


def throttle_repeats(handlers: list[logging.Handler] | None = None) -> None:
    """Filter the records of these handlers (default: the root logger's); libraries log from WARNING on."""
    repeat_filter = RepeatFilter()
    for handler in logging.getLogger().handlers if handlers is None else handlers:
        handler.addFilter(repeat_filter)
    for library in _LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)
