"""Sets up the log: one line per event on standard error, as text or as JSON with the named arguments of the text."""

import json
import logging
import re
import sys
import time

FORMATS = ("text", "json")
_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_CONVERSION = re.compile(r"(?:(\w+)=)?%(%|[-+ #0]*\d*(?:\.\d+)?[a-zA-Z])")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: its text and a field for each argument, such as `target` of `target=%s`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        line: dict[str, object] = {}
        if isinstance(record.args, tuple):
            names = [found[1] for found in _CONVERSION.finditer(str(record.msg)) if found[2] != "%"]
            line = {name: value for name, value in zip(names, record.args, strict=False) if name}
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line |= {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": f"{at}.{record.msecs:03.0f}Z",
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure_logging(log_format: str) -> None:
    """Make all loggers of this process write to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
