"""Messages as a Cisco device sends them: rows of keys and content, in self-describing GPB."""

from collections.abc import Iterator, Mapping
from typing import Any

from collectors.dialout.v1.mdt_pb2 import DialoutArgs, Telemetry, TelemetryField

COUNTERS = "Cisco-IOS-XR-infra-statsd-oper:infra-statistics/interfaces/interface/latest/generic-counters"


def fields_of(content: Mapping[str, Any]) -> Iterator[TelemetryField]:
    """Yield the fields of a JSON object; a list is a field that repeats."""
    for name, value in content.items():
        for one in value if isinstance(value, list) else [value]:
            match one:
                case Mapping():
                    yield TelemetryField(name=name, fields=fields_of(one))
                case bool():
                    yield TelemetryField(name=name, bool_value=one)
                case int() if one < 0:
                    yield TelemetryField(name=name, sint64_value=one)
                case int():
                    yield TelemetryField(name=name, uint64_value=one)
                case float():
                    yield TelemetryField(name=name, double_value=one)
                case _:
                    yield TelemetryField(name=name, string_value=one)


def row(keys: Mapping[str, Any], content: Mapping[str, Any], at_ms: int = 0) -> TelemetryField:
    """Return a row of a list."""
    parts = [TelemetryField(name="keys", fields=fields_of(keys))]
    return TelemetryField(timestamp=at_ms, fields=[*parts, TelemetryField(name="content", fields=fields_of(content))])


def telemetry(path: str, at_ms: int, *rows: TelemetryField, node: str = "leaf1") -> Telemetry:
    """Return a message."""
    return Telemetry(node_id_str=node, encoding_path=path, msg_timestamp=at_ms, data_gpbkv=rows)


def counters(at_ms: int, port: str, rx_bytes: int, node: str = "leaf1") -> bytes:
    """Return an encoded message with the counter of one port."""
    message = telemetry(COUNTERS, at_ms, row({"interface-name": port}, {"bytes-received": rx_bytes}), node=node)
    return DialoutArgs(data=message.SerializeToString()).SerializeToString()
