"""Encodes log records and metrics as requests of OTLP, and reads the answers.

The caller supplies plain values: an absent attribute is left out, because OTLP has no null.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from google.protobuf.message import DecodeError

from streams.wire.errors import Misconfigured
from streams.wire.v1 import otlp_pb2

Value = str | bool | int | float | Sequence[str]
_SCOPE = "railsight"
_CUMULATIVE = 2


@dataclass(frozen=True, slots=True)
class LogRow:
    """One log record; times are Unix nanoseconds."""

    event: str
    """The name of the event, such as `railsight.finding`."""
    time_ns: int
    observed_ns: int
    severity: int
    """The number of OpenTelemetry's scale: 9 INFO, 13 WARN, 21 FATAL."""
    severity_text: str
    body: str
    attributes: Mapping[str, Value | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One metric with its points; a sum is cumulative since `start_ns`, and a gauge has no start."""

    name: str
    description: str
    unit: str
    """In UCUM; empty for a number without a unit."""
    is_sum: bool
    points: Sequence[tuple[Mapping[str, str], float]]


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer of a receiver that accepted a request in part: the refused items, and the reason or a warning."""

    count: int
    reason: str


def encode_logs(resource: Mapping[str, Value], rows: Iterable[LogRow]) -> bytes:
    """Return an ExportLogsServiceRequest."""
    records = [
        otlp_pb2.LogRecord(
            time_unix_nano=row.time_ns,
            observed_time_unix_nano=row.observed_ns,
            severity_number=row.severity,
            severity_text=row.severity_text,
            body=_value(row.body),
            attributes=_attributes(row.attributes),
            event_name=row.event,
        )
        for row in rows
    ]
    logs = otlp_pb2.ScopeLogs(scope=_scope(), log_records=records)
    of_resource = otlp_pb2.ResourceLogs(resource=_resource(resource), scope_logs=[logs])
    return otlp_pb2.ExportLogsServiceRequest(resource_logs=[of_resource]).SerializeToString()


def encode_metrics(resource: Mapping[str, Value], series: Iterable[Series], start_ns: int, now_ns: int) -> bytes:
    """Return an ExportMetricsServiceRequest with all points at `now_ns`."""
    metrics = []
    for one in series:
        points = [
            otlp_pb2.NumberDataPoint(
                start_time_unix_nano=start_ns if one.is_sum else 0,
                time_unix_nano=now_ns,
                as_double=value,
                attributes=_attributes(labels),
            ).SerializeToString()
            for labels, value in one.points
        ]
        name, description, unit = (text.encode() for text in (one.name, one.description, one.unit))
        metric = otlp_pb2.Metric(name=name, description=description, unit=unit)
        data = metric.sum if one.is_sum else metric.gauge
        data.data_points.extend(points)
        if one.is_sum:
            data.aggregation_temporality, data.is_monotonic = _CUMULATIVE, True
        data.SetInParent()
        metrics.append(metric)
    of_scope = otlp_pb2.ScopeMetrics(scope=_scope().SerializeToString(), metrics=metrics)
    of_resource = otlp_pb2.ResourceMetrics(resource=_resource(resource).SerializeToString(), scope_metrics=[of_scope])
    return otlp_pb2.ExportMetricsServiceRequest(resource_metrics=[of_resource]).SerializeToString()


def refused(answer: bytes) -> Refused | None:
    """Return what the receiver refused or warns of; None if it accepted everything. Raises Misconfigured.

    A count of 0 with a text is a warning (specification of OTLP, "Partial Success").
    """
    try:
        partial = otlp_pb2.ExportResponse.FromString(answer).partial_success
    except DecodeError as error:
        raise Misconfigured(f"the answer is not of OTLP: {answer[:80]!r}; check the address and the path") from error
    return Refused(partial.rejected, partial.error_message) if partial.rejected or partial.error_message else None


def retry_delay_s(status: bytes) -> float | None:
    """Return the delay of the RetryInfo in a google.rpc.Status; None without one."""
    try:
        for detail in otlp_pb2.Status.FromString(status).details:
            if detail.type_url.endswith("/google.rpc.RetryInfo"):
                delay = otlp_pb2.RetryInfo.FromString(detail.value).retry_delay
                return max(0.0, delay.seconds + delay.nanos / 1e9)
    except DecodeError:
        return None
    return None


def _scope() -> otlp_pb2.InstrumentationScope:
    return otlp_pb2.InstrumentationScope(name=_SCOPE, version=version("railsight"))


def _resource(attributes: Mapping[str, Value]) -> otlp_pb2.Resource:
    return otlp_pb2.Resource(attributes=_attributes(attributes))


def _attributes(values: Mapping[str, Value | None]) -> list[otlp_pb2.KeyValue]:
    return [otlp_pb2.KeyValue(key=key, value=_value(value)) for key, value in values.items() if value not in (None, "")]


def _value(value: Value | None) -> otlp_pb2.AnyValue:
    match value:
        case bool():
            return otlp_pb2.AnyValue(bool_value=value)
        case int():
            return otlp_pb2.AnyValue(int_value=value)
        case float():
            return otlp_pb2.AnyValue(double_value=value)
        case None | str():
            return otlp_pb2.AnyValue(string_value=value or "")
        case _:
            return otlp_pb2.AnyValue(array_value=otlp_pb2.ArrayValue(values=map(_value, value)))
