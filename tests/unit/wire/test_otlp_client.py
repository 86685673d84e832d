"""Each answer of a receiver of OTLP leads to the reaction that the specification requires, by HTTP and by gRPC."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from pydantic import ValidationError

from lab.constants import params_of
from streams.wire.errors import Busy, Misconfigured, Reject, Retry
from streams.wire.otlp_client import OtlpClient
from streams.wire.otlp_messages import LogRow, Refused, encode_logs
from streams.wire.otlp_params import OtlpParams
from streams.wire.v1 import otlp_pb2
from tests.fakes.otlp_receiver import Answer, Receiver
from tests.fixtures.ports import free_port

PARTIAL = otlp_pb2.ExportResponse(
    partial_success=otlp_pb2.PartialSuccess(rejected=2, error_message="no time")
).SerializeToString()
INFO = otlp_pb2.RetryInfo(retry_delay=otlp_pb2.RetryDelay(seconds=2, nanos=500_000_000)).SerializeToString()
DETAILS = otlp_pb2.Status(
    code=8, details=[otlp_pb2.Detail(type_url="type.googleapis.com/google.rpc.RetryInfo", value=INFO)]
).SerializeToString()
TRAILER = (("grpc-status-details-bin", DETAILS),)
Code = grpc.StatusCode


def request() -> bytes:
    return encode_logs({"service.name": "test"}, [LogRow("e", 1, 2, 9, "INFO", "text", {"absent": None, "n": 0})])


@pytest.fixture(params=["http", "grpc"])
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    receiver = Receiver(request.param)
    receiver.start()
    yield receiver
    receiver.stop()


def client(url: str) -> OtlpClient:
    return OtlpClient(params_of(OtlpParams, {"logs": url, "timeout_s": 5}), "logs")


def test_a_request_arrives_as_it_was_encoded_and_a_partial_success_is_returned(receiver: Receiver) -> None:
    """An answer without a body accepts everything; a value of 0 is sent, an absent one is not."""
    own = client(receiver.url)
    assert own.send(request()) is None
    path = "/v1/logs" if receiver.scheme == "http" else "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
    assert receiver.accepted == [(path, request())]
    (record,) = receiver.records
    assert [(one.key, one.value.WhichOneof("value")) for one in record.attributes] == [("n", "int_value")]
    receiver.respond = lambda _: Answer(body=PARTIAL)
    assert own.send(request()) == Refused(2, "no time")


HTTP: list[tuple[Answer, type[Exception]]] = [
    *((Answer(status), Retry) for status in (429, 502, 503, 504)),
    *((Answer(status), Reject) for status in (400, 413, 415, 422)),
    *((Answer(status), Misconfigured) for status in (301, 401, 403, 404, 405, 500, 501)),
    (Answer(body=b"<html>"), Misconfigured),
]
GRPC: list[tuple[Answer, type[Exception]]] = [
    *(
        (Answer(code), Retry)
        for code in (
            Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.ABORTED, Code.OUT_OF_RANGE, Code.UNAVAILABLE, Code.DATA_LOSS,
        )
    ),
    (Answer(Code.INVALID_ARGUMENT), Reject),
    (Answer(Code.RESOURCE_EXHAUSTED), Reject),  # without RetryInfo it is a limit of the size
    *((Answer(code), Misconfigured) for code in (Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.UNIMPLEMENTED)),
    *((Answer(code), Misconfigured) for code in (Code.INTERNAL, Code.UNKNOWN, Code.NOT_FOUND)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("scheme", "answer", "error"), [*(("http", *case) for case in HTTP), *(("grpc", *case) for case in GRPC)]
)
def test_the_answer_decides_whether_a_request_is_repeated(scheme: str, answer: Answer, error: type[Exception]) -> None:
    """One attempt each; the caller repeats after Retry."""
    receiver = Receiver(scheme, lambda _: answer)
    receiver.start()
    try:
        with pytest.raises(error) as raised:
            client(receiver.url).send(request())
    finally:
        receiver.stop()
    assert type(raised.value) is error and receiver.attempts == 1


@pytest.mark.parametrize(
    ("scheme", "answer", "after_s"),
    [
        ("http", Answer(429, (("Retry-After", "7"),)), 7),
        ("http", Answer(503, (("Retry-After", "99999"),)), 600),
        ("http", Answer(503, (("Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"),)), None),
        ("grpc", Answer(Code.UNAVAILABLE, TRAILER), 2.5),
        ("grpc", Answer(Code.RESOURCE_EXHAUSTED, TRAILER), 2.5),
        ("grpc", Answer(Code.UNAVAILABLE, (("grpc-status-details-bin", b"\xff\xff"),)), None),
    ],
)
def test_a_receiver_names_the_time_to_wait(scheme: str, answer: Answer, after_s: float | None) -> None:
    """At most ten minutes; a date or an unreadable detail names no time."""
    receiver = Receiver(scheme, lambda _: answer)
    receiver.start()
    try:
        with pytest.raises(Retry) as raised:
            client(receiver.url).send(request())
    finally:
        receiver.stop()
    assert (raised.value.after_s if isinstance(raised.value, Busy) else None) == after_s


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_receiver_that_does_not_listen_or_answer_is_retried(scheme: str) -> None:
    """The address is in the message."""
    url = f"{scheme}://127.0.0.1:{free_port()}"
    with pytest.raises(Retry, match=url):
        client(url).send(request())


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"logs": "collector:4317"}, "needs grpc://"),
        ({"logs": "grpc://"}, "needs grpc://"),
        ({"metrics": "https://user:secret@collector"}, "credentials"),
        ({"metrics": "http://collector/v1?tenant=1"}, "no query"),
        ({"logs": "grpc://collector:4317/v1/logs"}, "no path"),
        ({"logs": "http://collector:99999"}, "Port out of range"),
        ({"key_file": "/key.pem"}, "key_file requires cert_file"),
        ({"log": "http://collector"}, "Extra inputs"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        OtlpParams.model_validate(settings)
