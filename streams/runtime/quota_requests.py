"""Defines the requests of Kafka's quotas by user, which aiokafka lacks: AlterClientQuotas and DescribeClientQuotas."""

from collections.abc import Iterable
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Float64, Int8, Int16, Int32, Schema, String

from streams.runtime.acl import Quota

_TEXT = String("utf-8")
_ENTITY = Array(("entity_type", _TEXT), ("entity_name", _TEXT))
_OPERATIONS = Array(("key", _TEXT), ("value", Float64), ("remove", Boolean))
_USER = "user"
_ANY_NAME = 2
"""The match type of all named entities of a type."""


class _AlterResponse(Response):  # type: ignore[misc] # aiokafka is untyped
    API_KEY = 49
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("entries", Array(("error_code", Int16), ("error_message", _TEXT), ("entity", _ENTITY))),
    )


class _AlterStruct(RequestStruct):  # type: ignore[misc] # aiokafka is untyped
    API_KEY = 49
    API_VERSION = 0
    RESPONSE_TYPE = _AlterResponse
    SCHEMA = Schema(
        ("entries", Array(("entity", _ENTITY), ("ops", _OPERATIONS))),
        ("validate_only", Boolean),
    )


class AlterQuotas(Request[_AlterStruct]):  # type: ignore[misc] # aiokafka is untyped
    """Sets quotas of users."""

    API_KEY = 49

    def __init__(self, quotas: Iterable[Quota]) -> None:
        self._quotas = quotas

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class(
            [([(_USER, one.user)], [(one.name, float(one.bytes_per_s), False)]) for one in self._quotas], False
        )


class _DescribeResponse(Response):  # type: ignore[misc] # aiokafka is untyped
    API_KEY = 48
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", _TEXT),
        ("entries", Array(("entity", _ENTITY), ("values", Array(("key", _TEXT), ("value", Float64))))),
    )


class _DescribeStruct(RequestStruct):  # type: ignore[misc] # aiokafka is untyped
    API_KEY = 48
    API_VERSION = 0
    RESPONSE_TYPE = _DescribeResponse
    SCHEMA = Schema(
        ("components", Array(("entity_type", _TEXT), ("match_type", Int8), ("match", _TEXT))), ("strict", Boolean)
    )


class DescribeQuotas(Request[_DescribeStruct]):  # type: ignore[misc] # aiokafka is untyped
    """Returns the quotas of all named users."""

    API_KEY = 48

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class([(_USER, _ANY_NAME, None)], True)


def quotas_of(response: Any) -> list[Quota]:
    """Return the quotas of a response to DescribeQuotas."""
    return [
        Quota(dict(entity)[_USER], name, round(value))
        for entity, values in response.entries or ()
        for name, value in values
    ]
