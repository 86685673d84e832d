"""Logs values that are not read, once per kind, with a sample and the next step. The metrics count all of them."""

from collections.abc import Callable
from enum import Enum

import structlog

_log = structlog.get_logger("railsight.bridge")

_MOST_KINDS = 200
"""Limit of log lines of one process: a site has tens of measurements, a broken source may have any number."""
_LONGEST_SAMPLE = 200


class Reason(Enum):
    """The reasons why values are not read; each member's value is the next step for the operator."""

    NO_INPUT = (
        "set collect.bridge.inputs for this measurement if it has values of ports; else leave it out of the topic"
    )
    NO_DEVICE = "set collect.bridge.device_tag to the tag that names the device"
    NO_SIGNAL = (
        "expected for values that are no metric of railsight; if it is one, send its complete path "
        "(Telegraf: the tag `path`, without trim_field_names; gnmic: no event processor that trims or renames values)"
    )
    NO_PORT = "send the port's name as a tag (gnmic: the keys of the path; Telegraf: the tag `name`)"
    BAD_VALUE = "compare the value with the device's model; counters must be whole numbers below 2^64"
    BAD_RECORD = "send gnmic's `format: event` or `json`, or Telegraf's `data_format` `influx` or `json`"
    FULL = "leave ports or devices out of the topics: a device may have 4,096 ports here, a process 50,000 devices"
    TOO_MUCH = "write smaller batches; leave what is not collected out of the topics"
    WHOLE_SECONDS = (
        'set precision = "1ms" in Telegraf\'s [agent], and json_timestamp_units = "1ns" in its output: with times in '
        "whole seconds, counters are read only of devices whose readings are 20 s apart"
    )


class LeftOut:
    """The kinds that have been logged."""

    def __init__(self) -> None:
        self.logged: set[tuple[Reason, str]] = set()

    def report(self, reason: Reason, kind: str, sample: Callable[[], object]) -> None:
        """Log a kind (such as a measurement with its field) once; `sample` is called only when a line is logged."""
        key = reason, kind
        if key in self.logged or len(self.logged) > _MOST_KINDS:
            return
        self.logged.add(key)
        if len(self.logged) > _MOST_KINDS:
            _log.warning(
                "not read, and more kinds than are logged", next="see railsight_collector_unknown for the rest"
            )
            return
        _log.warning(
            "not read", reason=reason.name.lower(), kind=kind, sample=str(sample())[:_LONGEST_SAMPLE], next=reason.value
        )
