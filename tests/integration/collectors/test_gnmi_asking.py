"""Tests devices that refuse paths, that require a login, and that send invalid gNMI, over real gRPC."""

from contextlib import AsyncExitStack

import pytest
from structlog.testing import capture_logs

from collectors.gnmi.params import Params, Target
from collectors.gnmi.paths import from_text, to_message
from collectors.gnmi.v1 import gnmi_pb2
from lab.constants import params_of, with_constants
from streams.fabric.catalogue import Metric
from streams.wire.models import CollectorStatus, Samples
from tests.fakes.gnmi_replay import Replay, raw, replaying
from tests.fixtures.waiting import until
from tests.integration.collectors.fabric import collecting

COUNTERS = "/interfaces/interface/state/counters"
OPER = "/interfaces/interface/state/oper-status"
MODELS = [gnmi_pb2.ModelData(name=name) for name in ("openconfig-interfaces", "openconfig-if-ethernet")]


def capabilities(*encodings: gnmi_pb2.Encoding.ValueType) -> gnmi_pb2.CapabilityResponse:
    return gnmi_pb2.CapabilityResponse(supported_models=MODELS, supported_encodings=encodings)


def response(**values: str) -> gnmi_pb2.SubscribeResponse:
    """Return one port of a device that has no clock."""
    response = gnmi_pb2.SubscribeResponse()
    response.update.prefix.CopyFrom(to_message(from_text("/interfaces/interface[name=e1]/state")))
    for name, value in values.items():
        path = to_message(from_text(name.replace("__", "/").replace("_", "-")))
        response.update.update.add(path=path).val.string_val = value
    return response


def asked(request: gnmi_pb2.SubscribeRequest) -> dict[str, int]:
    """Return the mode of each path."""
    return {"/" + "/".join(step.name for step in one.path.elem): one.mode for one in request.subscribe.subscription}


async def test_a_refused_on_change_is_sampled_and_a_refused_path_is_left_out() -> None:
    """One refused path refuses a whole subscription, so the accepted paths are found one by one."""
    ethernet = "/interfaces/interface/ethernet/state/counters"
    refuses = {(OPER, gnmi_pb2.ON_CHANGE), (ethernet, gnmi_pb2.SAMPLE), (ethernet, gnmi_pb2.ON_CHANGE)}
    device = Replay(
        [response(oper_status="UP", counters__in_octets="5")], capabilities(gnmi_pb2.JSON_IETF), frozenset(refuses)
    )  # fmt: skip
    with capture_logs() as logs:
        async with replaying(device) as address:
            params = Params(targets=(Target(name="d", address=address),), cadence_s=1)
            async with collecting(params) as (retained, _):
                await retained.until(lambda: bool(retained.of(Samples)))
                (samples,) = retained.of(Samples)
    (refused,) = [line for line in logs if line["event"] == "path refused"]
    assert (refused["path"], refused["why"]) == (ethernet, f"INVALID_ARGUMENT: {ethernet}: not in this mode")
    assert Metric.OPER_UP in samples.gauges.metric and Metric.RX_BYTES in samples.counters.metric
    streams = [r for r in device.requests if r.subscribe.mode == gnmi_pb2.SubscriptionList.STREAM]
    last = asked(streams[-1])
    assert last[COUNTERS] == gnmi_pb2.SAMPLE and last[OPER] == gnmi_pb2.SAMPLE
    assert last["/interfaces/interface/state/admin-status"] == gnmi_pb2.ON_CHANGE
    assert ethernet not in last
    assert {request.subscribe.encoding for request in device.requests} == {gnmi_pb2.JSON_IETF}
    assert streams[-1].subscribe.subscription[0].sample_interval == 10**9


async def test_a_device_without_the_container_of_counters_is_asked_for_its_parent() -> None:
    """The alternative of a path is tried after both of its modes."""
    refuses = {(COUNTERS, gnmi_pb2.SAMPLE), (COUNTERS, gnmi_pb2.ON_CHANGE)}
    device = Replay([response(counters__in_octets="5")], capabilities(gnmi_pb2.ASCII), frozenset(refuses))
    async with (
        replaying(device) as address,
        collecting(Params(targets=(Target(name="d", address=address),), cadence_s=1)) as (retained, _),
    ):
        await retained.until(lambda: bool(retained.of(Samples)))
    last = [asked(r) for r in device.requests if r.subscribe.mode == gnmi_pb2.SubscriptionList.STREAM][-1]
    assert last["/interfaces/interface/state"] == gnmi_pb2.SAMPLE
    assert COUNTERS not in last


@pytest.mark.parametrize(("limit", "schemas"), [(1, 1), (2, 2)])
async def test_a_limit_of_streams_is_met_with_few_rpcs(limit: int, schemas: int) -> None:
    """A device that refuses further Subscribe RPCs as out of range is read by as many streams as it allows."""
    models = [*MODELS, *(gnmi_pb2.ModelData(name=name) for name in ("junos-state-interfaces", "junos-conf-root"))]
    supported = gnmi_pb2.CapabilityResponse(supported_models=models, supported_encodings=[gnmi_pb2.JSON_IETF])
    device = Replay([response(oper_status="UP", counters__in_octets="5")], supported, limit=limit)
    with capture_logs() as logs:
        async with replaying(device) as address:
            params = Params(targets=(Target(name="d", address=address),), cadence_s=60)
            async with collecting(params) as (retained, metrics):
                await retained.until(lambda: bool(retained.of(Samples)))
                await until(lambda: device.streams == schemas)
                assert metrics.value("reconnects", "d") <= 1
    assert len(device.requests) < 20
    assert not [line for line in logs if line["event"] == "path refused"]


@pytest.mark.parametrize(
    ("login", "shown"),
    [
        ({"token": "t0ken"}, {"authorization": "Bearer t0ken"}),
        ({"username": "u", "password": "p"}, {"username": "u", "password": "p"}),
        ({}, {}),
    ],
)
async def test_a_login_is_sent_to_the_device(login: dict[str, str], shown: dict[str, str]) -> None:
    """Each call has a token, or a user and password, in its metadata."""
    device = Replay([response(counters__in_octets="5")])
    async with replaying(device) as address:
        params = params_of(Params, {"targets": [{"name": "d", "address": address}], "cadence_s": 1} | login)
        async with collecting(params) as (retained, _):
            await retained.until(lambda: bool(retained.of(Samples)))
    names = {"authorization", "username", "password"}
    assert {key: value for key, value in device.metadata[0].items() if key in names} == shown


async def test_invalid_gnmi_is_counted_and_other_devices_are_read() -> None:
    """With invalid bytes and a message past the limit, other devices and the following messages are read."""
    good, whole = Replay([response(counters__in_octets="5")]), response(counters__in_octets="7").SerializeToString()
    garbage = [b"\xff\xff\xff", b"\x0a\x7f", whole]
    huge = [b"\x0a" * (1 << 20)]
    async with AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(raw(sent)) for sent in (garbage, huge)]
        addresses.append(await stack.enter_async_context(replaying(good)))
        targets = [{"name": f"d{number}", "address": address} for number, address in enumerate(addresses)]
        params = params_of(Params, {"targets": targets, "cadence_s": 1, "max_message_bytes": 1 << 16})
        async with collecting(params) as (retained, metrics):
            await retained.until(lambda: bool(retained.of(Samples, "d0")) and bool(retained.of(Samples, "d2")))
            await retained.until(
                lambda: any(
                    "of 1048576 bytes is above the limit of 65536" in s.error
                    for s in retained.of(CollectorStatus, "d1")
                )
            )
            assert metrics.value("unreadable", "d0") >= 2
            assert not retained.of(Samples, "d1")
            assert retained.of(CollectorStatus, "d2")[-1].reachable


async def test_a_device_that_was_never_reached_is_logged_once_with_its_error() -> None:
    """Each further attempt that fails for the same reason is no further line; the status has it too."""
    params = with_constants(Params, backoff_s=0.01)(targets=(Target(name="gone", address="127.0.0.1:1"),), cadence_s=1)
    with capture_logs() as logs:
        async with collecting(params) as (retained, metrics):
            await retained.until(lambda: metrics.value("reconnects") > 2 and bool(retained.of(CollectorStatus)))
    (line,) = [line for line in logs if line.get("device") == "gone"]
    assert (line["log_level"], line["event"]) == ("warning", "not reached, retrying")
    assert line["why"] == retained.of(CollectorStatus)[0].error != ""
