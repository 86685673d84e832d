"""Tests Set of the simulated switches over real gRPC: the streams of both ends report it, and errors have a path."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import orjson
import pytest

from collectors.core.clock import SystemClock
from collectors.gnmi.paths import from_text, to_message
from collectors.gnmi.v1 import gnmi_pb2
from lab.servers.gnmi_server import GnmiServers
from lab.servers.serve import Params
from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_world import DemoWorld
from tests.fixtures.certificates import certificate

SHAPE = DemoShape(pods=1, hosts=1, planes=1, spines=1, uplinks=2)


class Switch:
    """A gNMI client of one switch."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def set(self, path: str, value: object) -> gnmi_pb2.SetResponse:
        request = gnmi_pb2.SetRequest()
        encoded = gnmi_pb2.TypedValue(json_ietf_val=orjson.dumps(value))
        request.replace.add(path=to_message(from_text(path)), val=encoded)
        call = self._channel.unary_unary(
            "/gnmi.gNMI/Set", gnmi_pb2.SetRequest.SerializeToString, gnmi_pb2.SetResponse.FromString
        )
        response: gnmi_pb2.SetResponse = await call(request, timeout=10)
        return response

    async def get(self, path: str, kind: gnmi_pb2.GetRequest.DataType.ValueType = gnmi_pb2.GetRequest.CONFIG) -> object:
        request = gnmi_pb2.GetRequest(type=kind, encoding=gnmi_pb2.JSON_IETF, path=[to_message(from_text(path))])
        call = self._channel.unary_unary(
            "/gnmi.gNMI/Get", gnmi_pb2.GetRequest.SerializeToString, gnmi_pb2.GetResponse.FromString
        )
        response: gnmi_pb2.GetResponse = await call(request, timeout=10)
        return [orjson.loads(u.val.json_ietf_val) for n in response.notification for u in n.update]

    async def changes(self, path: str) -> AsyncIterator[str]:
        """Yield the values of a leaf as they change, the first at once."""
        wanted = gnmi_pb2.SubscriptionList(encoding=gnmi_pb2.JSON_IETF)
        wanted.subscription.add(path=to_message(from_text(path)), mode=gnmi_pb2.ON_CHANGE)
        call = self._channel.stream_stream(
            "/gnmi.gNMI/Subscribe", gnmi_pb2.SubscribeRequest.SerializeToString, gnmi_pb2.SubscribeResponse.FromString
        )

        async def requests() -> AsyncIterator[gnmi_pb2.SubscribeRequest]:
            yield gnmi_pb2.SubscribeRequest(subscribe=wanted)
            await asyncio.Event().wait()

        async for response in call(requests()):
            for update in response.update.update:
                yield orjson.loads(update.val.json_ietf_val)


@pytest.mark.parametrize("with_tls", [False, True])
async def test_a_set_changes_both_ends_and_their_streams_report_it(tmp_path: Path, with_tls: bool) -> None:
    """A port that is shut is administratively down, its far end without a signal; both return when it is enabled."""
    clock = SystemClock()
    inventory = demo_fabric.inventory(SHAPE, clock.now_ns())
    link = next(link for link in inventory.links if link.role == "fabric-link")
    cert, key = certificate(tmp_path, "device")
    tls = grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())]) if with_tls else None
    credentials = grpc.ssl_channel_credentials(cert.read_bytes())

    def channel(address: str) -> grpc.aio.Channel:
        return grpc.aio.secure_channel(address, credentials) if with_tls else grpc.aio.insecure_channel(address)

    async with (
        GnmiServers(DemoWorld(inventory, (), 1, clock.now_ns()), clock, tls=tls) as face,
        channel(face.addresses[link.a_device]) as near_channel,
        channel(face.addresses[link.z_device]) as far_channel,
        asyncio.timeout(30),
    ):
        near, far = Switch(near_channel), Switch(far_channel)
        enabled = f"/interfaces/interface[name={link.a_port}]/config/enabled"
        admin = near.changes(f"/interfaces/interface[name={link.a_port}]/state/admin-status")
        oper = far.changes(f"/interfaces/interface[name={link.z_port}]/state/oper-status")
        assert (await anext(admin), await anext(oper)) == ("UP", "UP")
        response = await near.set(enabled, False)
        assert response.response[0].op == gnmi_pb2.UpdateResult.REPLACE and response.timestamp > 0
        assert (await anext(admin), await anext(oper)) == ("DOWN", "DOWN")
        assert await near.get(enabled) == [False]
        assert await near.get(enabled, gnmi_pb2.GetRequest.STATE) == []
        await near.set(enabled, True)
        assert (await anext(admin), await anext(oper)) == ("UP", "UP")


async def test_an_error_has_the_keys_of_its_path_over_the_tls_of_the_simulators_settings(tmp_path: Path) -> None:
    """Mutual TLS by the settings; a port that does not exist is named with its key, in Get and in Subscribe."""
    clock = SystemClock()
    cert, key = certificate(tmp_path, "device")
    own, own_key = certificate(tmp_path, "client")
    params = Params(gnmi_cert_file=cert, gnmi_key_file=key, gnmi_client_ca_file=own)
    world = DemoWorld(demo_fabric.inventory(SHAPE, clock.now_ns()), (), 1, clock.now_ns())
    credentials = grpc.ssl_channel_credentials(cert.read_bytes(), own_key.read_bytes(), own.read_bytes())
    async with GnmiServers(world, clock, tls=params.gnmi_tls()) as face, asyncio.timeout(30):
        address = next(iter(face.addresses.values()))
        async with grpc.aio.secure_channel(address, credentials) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await Switch(channel).get("/interfaces/interface[name=Nope]/state")
            assert failed.value.details() == "no such path: /interfaces/interface[name=Nope]/state"
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await anext(Switch(channel).changes("/interfaces/interface[name=Nope]/nothing"))
            assert failed.value.details() == "no such path: /interfaces/interface[name=Nope]/nothing"
        stranger = grpc.ssl_channel_credentials(cert.read_bytes())
        async with grpc.aio.secure_channel(address, stranger) as channel:
            with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
                await Switch(channel).get("/system/state")


@pytest.mark.parametrize("given", [{"gnmi_cert_file": "a"}, {"gnmi_key_file": "a"}, {"gnmi_client_ca_file": "a"}])
def test_incomplete_settings_of_tls_are_refused(given: dict[str, str]) -> None:
    """A server that would start without TLS is not what was meant."""
    with pytest.raises(ValueError, match="gnmi_cert_file"):
        Params.model_validate(given)
