"""Reads and sets single leaves of devices by gNMI."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from railsight_automation import gnmi_pb2
from railsight_automation.errors import DeviceError

_STEP = re.compile(r"/([^/\[\]]+)((?:\[[^=\]]+=(?:[^\]\\]|\\.)*\])*)")
_KEY = re.compile(r"\[([^=\]]+)=((?:[^\]\\]|\\.)*)\]")


@dataclass(frozen=True)
class Access:
    """The parameters of connections to all devices."""

    credentials: grpc.ChannelCredentials | None = None
    server_name: str = ""
    """The name in the devices' certificates, if it differs from their address."""
    username: str = ""
    password: str = ""
    timeout_s: float = 10.0


class GnmiClient:
    """A client of all devices, with one channel for each."""

    def __init__(self, addresses: Mapping[str, str], access: Access) -> None:
        self.devices = frozenset(addresses)
        self._addresses = addresses
        self._access = access
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def close(self) -> None:
        """Close all channels."""
        for channel in self._channels.values():
            await channel.close()

    async def get(self, device: str, path: str, *, is_state: bool = False) -> Any:
        """Return the value of a leaf, or None without a value; raise DeviceError."""
        kind = gnmi_pb2.GetRequest.STATE if is_state else gnmi_pb2.GetRequest.CONFIG
        request = gnmi_pb2.GetRequest(path=[to_path(path)], type=kind, encoding=gnmi_pb2.JSON_IETF)
        try:
            response = await self._call(device, "Get", request, gnmi_pb2.GetResponse)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise _device_error(device, "Get", path, error) from error
        try:
            return leaf_value(response, path)
        except ValueError as error:
            raise DeviceError(f"{device}: Get {path}: {error}") from error

    async def set(self, device: str, path: str, value: Any) -> None:
        """Replace a leaf, or delete it for the value None; raise DeviceError."""
        request = gnmi_pb2.SetRequest()
        if value is None:
            request.delete.append(to_path(path))
        else:
            encoded = gnmi_pb2.TypedValue(json_ietf_val=json.dumps(value).encode())
            request.replace.append(gnmi_pb2.Update(path=to_path(path), val=encoded))
        try:
            await self._call(device, "Set", request, gnmi_pb2.SetResponse)
        except grpc.aio.AioRpcError as error:
            raise _device_error(device, "Set", path, error) from error

    async def _call(self, device: str, name: str, request: Any, response: Any) -> Any:
        if device not in self._channels:
            self._channels[device] = self._channel(self._addresses[device])
        call = self._channels[device].unary_unary(
            f"/gnmi.gNMI/{name}", type(request).SerializeToString, response.FromString
        )
        login = (("username", self._access.username), ("password", self._access.password))
        return await call(request, timeout=self._access.timeout_s, metadata=login if self._access.username else None)

    def _channel(self, address: str) -> grpc.aio.Channel:
        if self._access.credentials is None:
            return grpc.aio.insecure_channel(address)
        name = self._access.server_name
        options = [("grpc.ssl_target_name_override", name)] if name else []
        return grpc.aio.secure_channel(address, self._access.credentials, options)


def to_path(text: str) -> gnmi_pb2.Path:
    """Parse a path such as `/interfaces/interface[name=Ethernet1/1]/config`."""
    path = gnmi_pb2.Path()
    at = 0
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise ValueError(f"not a gNMI path: {text}")
        keys = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _KEY.findall(step[2])}
        path.elem.append(gnmi_pb2.PathElem(name=step[1], key=keys))
        at = step.end()
    return path


def leaf_value(response: gnmi_pb2.GetResponse | None, path: str) -> Any:
    """Return the value in an answer, or None without a value; raise ValueError if the value is not that of a leaf.

    gRPC passes None for an unreadable answer.
    """
    if response is None:
        raise ValueError("the answer is not a GetResponse")
    values = [update.val for notification in response.notification for update in notification.update]
    if len(values) > 1:
        raise ValueError(f"{len(values)} values for one leaf")
    try:
        return _plain(values[0], path) if values else None
    except RecursionError as error:
        raise ValueError("its JSON is nested too deep") from error


def _plain(value: gnmi_pb2.TypedValue, path: str) -> Any:
    kind = value.WhichOneof("value")
    if kind == "leaflist_val":
        return [_plain(element, path) for element in value.leaflist_val.element]
    if kind not in ("json_val", "json_ietf_val"):
        return getattr(value, kind) if kind else None
    plain = json.loads(value.json_ietf_val or value.json_val)
    leaf = path.rpartition("/")[2]
    if isinstance(plain, dict) and [name.rpartition(":")[2] for name in plain] == [leaf]:
        (plain,) = plain.values()  # some devices return the leaf within its container
    return plain


def _device_error(device: str, name: str, path: str, error: grpc.aio.AioRpcError) -> DeviceError:
    return DeviceError(f"{device}: {name} {path}: {error.code().name} {error.details()}")
