"""Parses a source's record, in any format, to points. Pure."""

from dataclasses import dataclass

from collectors.bridge import json_points, line_protocol
from collectors.bridge.params import Format
from collectors.bridge.points import Point
from streams.wire.errors import Reject


@dataclass(frozen=True, slots=True)
class Source:
    """One record of a source topic: its offset, Kafka's timestamp, and its value."""

    offset: int
    at_ns: int
    value: bytes


def read(form: Format, value: bytes, heads: line_protocol.Heads) -> tuple[list[Point], bool, list[Reject]]:
    """Return the points, whether they are gnmic's, and the reasons of refused parts."""
    points: list[Point] = []
    refused: list[Reject] = []
    is_gnmic = False
    try:
        if form == "telegraf-influx" or (form == "auto" and value.lstrip()[:1] not in {b"{", b"["}):
            points.extend(line_protocol.points(_text(value), heads, refused))
        else:
            document = json_points.parse_document(value)
            is_gnmic = form == "gnmic" or (form == "auto" and not json_points.is_telegraf(document))
            points.extend(json_points.points(document, refused, is_gnmic=is_gnmic))
    except Reject as error:
        refused.append(error)
    return points, is_gnmic, refused


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Reject(f"not UTF-8: {error.reason} at byte {error.start}") from None
