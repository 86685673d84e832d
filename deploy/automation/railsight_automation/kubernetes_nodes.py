"""Takes hosts out of use in Kubernetes: cordons and taints a node with the remediation's id, and undoes only that.

A cordon has no owner, so an annotation names the remediation. The taint's effect is NoSchedule: running pods stay.
"""

import asyncio
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict

from railsight_automation.errors import DeviceError, Misconfigured, Refused
from railsight_automation.journal import Change
from railsight_automation.messages import Remediation
from railsight_automation.node_names import names_of
from railsight_automation.plan import Plan
from railsight_automation.settings import Setting

_KIND = "kubernetes"
_CONFLICT, _NOT_FOUND = 409, 404
_TRIES = 5
_SHOWN = 5


@dataclass(frozen=True)
class KubernetesParams:
    """Settings of `[kubernetes]`."""

    kubeconfig: str = ""
    """The kubeconfig file; empty: the pod's service account."""
    context: str = ""
    key: str = "railsight.io/remediation"
    """The key of the taint and of the annotation."""
    timeout_s: float = 10.0
    nodes: Mapping[str, str] = field(default_factory=dict)
    """The Kubernetes node of each host whose name differs by more than case and domain."""


class Nodes(Protocol):
    """The three calls of the API; a node or a pod is JSON. Raises ApiError."""

    def read(self, name: str) -> dict[str, Any]: ...

    def pods(self, name: str) -> list[dict[str, Any]]: ...

    def patch(self, name: str, body: dict[str, Any]) -> None: ...


class ApiError(Exception):
    """An error of the API; `status` is 0 if there was no answer."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class CordonState(TypedDict):
    """The state of a node; `owner` is the remediation of an own cordon."""

    is_cordoned: bool
    owner: str


@dataclass(frozen=True)
class CordonSetting:
    """The cordon of a node, with taint and annotation."""

    api: Nodes
    params: KubernetesParams
    node: str
    reason: str = ""

    @property
    def address(self) -> str:
        return f"{_KIND}:{self.node}"

    async def read(self) -> CordonState:
        return self._state(await read_node(self.api, self.node))

    async def write(self, value: CordonState) -> None:
        before = None
        for _ in range(_TRIES):
            node = await read_node(self.api, self.node)
            state = self._state(node)
            if before not in (None, state):
                raise DeviceError(f"node {self.node} was changed meanwhile: {state}")
            before = state
            if await self._patched(node, value):
                return
        raise DeviceError(f"node {self.node}: changed by others at each of {_TRIES} tries")

    def out(self, present: CordonState, remediation_id: str) -> CordonState:
        if present["is_cordoned"]:
            raise Refused(f"node {self.node} is cordoned already: {present['owner'] or 'by another party'}")
        return CordonState(is_cordoned=True, owner=remediation_id)

    def back(self, present: CordonState, change: Change) -> CordonState:
        return present if present["owner"] != change.remediation_id else CordonState(is_cordoned=False, owner="")

    def is_out(self, present: CordonState) -> bool:
        return present["is_cordoned"]

    def _state(self, node: dict[str, Any]) -> CordonState:
        spec = node.get("spec", {})
        owner = node["metadata"].get("annotations", {}).get(self.params.key, "")
        has_taint = any(taint["key"] == self.params.key for taint in spec.get("taints", ()))
        return CordonState(is_cordoned=bool(spec.get("unschedulable")) or has_taint, owner=owner)

    async def _patched(self, node: dict[str, Any], value: CordonState) -> bool:
        """Patch a node; return whether the version that was read was still the newest."""
        key, is_out = self.params.key, value["is_cordoned"]
        taints = [taint for taint in node.get("spec", {}).get("taints", ()) if taint["key"] != key]
        if is_out:
            taints.append({"key": key, "value": value["owner"], "effect": "NoSchedule"})
        annotations = {key: value["owner"] or None, f"{key}-reason": self.reason if is_out else None}
        body = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": annotations},
            "spec": {"unschedulable": is_out, "taints": taints},  # a patch replaces the whole list of taints
        }
        try:
            await asyncio.to_thread(self.api.patch, node["metadata"]["name"], body)
        except ApiError as error:
            if error.status == _CONFLICT:
                return False
            raise DeviceError(f"node {self.node}: {error}") from error
        return True


class OperationCordon(CordonSetting):
    """The cordon of a node for an operation: a present own cordon, or a new one."""

    def out(self, present: CordonState, remediation_id: str) -> CordonState:
        is_ours = present["is_cordoned"] and present["owner"]
        return present if is_ours else super().out(present, remediation_id)


class KubernetesHosts:
    """Plans the actions on hosts."""

    actions = ("CORDON_HOST", "UNCORDON_HOST")
    kind = _KIND

    def __init__(self, params: KubernetesParams, api: Nodes) -> None:
        self._params = params
        self._api = api

    def plan(self, remediation: Remediation) -> Plan:
        """Return the node of the host."""
        return Plan((CordonSetting(self._api, self._params, self._node(remediation), remediation.reason),))

    def at(self, address: str) -> Setting:
        """Return the setting of a journaled change."""
        return CordonSetting(self._api, self._params, address.partition(":")[2])

    def cordon(self, remediation: Remediation) -> Setting:
        """Return the cordon of the target's host for an operation."""
        return OperationCordon(self._api, self._params, self._node(remediation), remediation.reason)

    async def why_busy(self, device: str) -> str:
        """Return the pods that `kubectl drain` would evict: all except DaemonSet, static and finished pods."""
        host = self._params.nodes.get(device, device)
        node = (await read_node(self._api, host))["metadata"]["name"]  # fails for an unknown node, which has no pods
        names = sorted(_name(pod) for pod in await _call(node, self._api.pods, node) if _is_work(pod))
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"node {node} runs {', '.join(names[:_SHOWN])}{more}" if names else ""

    async def boot(self, device: str) -> str:
        """Return the boot id of the node, as its kubelet reports it."""
        node = self._params.nodes.get(device, device)
        info = (await read_node(self._api, node)).get("status", {}).get("nodeInfo", {})
        if not info.get("bootID"):
            raise DeviceError(f"node {node} has no boot id")
        return str(info["bootID"])

    def _node(self, remediation: Remediation) -> str:
        """Return the node of the target's host; raise Refused if the remediation's id is no valid value of a taint."""
        if remediation.a is None:
            raise Refused(f"{remediation.target_id} has no device")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", remediation.id):
            raise Refused(f"{remediation.id} cannot be the value of a taint")
        return self._params.nodes.get(remediation.a.device, remediation.a.device)


async def read_node(api: Nodes, node: str) -> dict[str, Any]:
    """Return a node under the first of its possible names that the API has; raise DeviceError."""
    names = names_of(node)
    for name in names:
        try:
            found: dict[str, Any] = await asyncio.to_thread(api.read, name)
        except ApiError as error:
            if error.status != _NOT_FOUND or name == names[-1]:
                raise DeviceError(f"node {node}: {error}") from error
        else:
            return found
    raise DeviceError(f"node {node}: it has no name")


async def _call(node: str, method: Any, *arguments: Any) -> Any:
    try:
        return await asyncio.to_thread(method, *arguments)
    except ApiError as error:
        raise DeviceError(f"node {node}: {error}") from error


def _is_work(pod: dict[str, Any]) -> bool:
    metadata = pod["metadata"]
    is_static = "kubernetes.io/config.mirror" in metadata.get("annotations", {})
    is_daemon = any(owner.get("kind") == "DaemonSet" for owner in metadata.get("ownerReferences", ()))
    return not (is_static or is_daemon) and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _name(pod: dict[str, Any]) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


class OfficialClient:
    """The official client; only this class imports it."""

    def __init__(self, params: KubernetesParams) -> None:
        try:
            from kubernetes import client, config
            from urllib3.exceptions import HTTPError
        except ImportError as error:
            raise Misconfigured("[kubernetes] needs its client: pip install kubernetes") from error
        try:
            if params.kubeconfig:
                config.load_kube_config(params.kubeconfig, params.context or None)
            else:
                config.load_incluster_config()
        except config.ConfigException as error:
            raise Misconfigured(f"kubernetes.kubeconfig: {error}") from error
        self._api = client.CoreV1Api()
        self._plain = client.ApiClient().sanitize_for_serialization
        self._errors = (client.ApiException, HTTPError)
        self._timeout_s = params.timeout_s

    def read(self, name: str) -> dict[str, Any]:
        node: dict[str, Any] = self._plain(self._try(self._api.read_node, name))
        return node

    def pods(self, name: str) -> list[dict[str, Any]]:
        method = functools.partial(self._api.list_pod_for_all_namespaces, field_selector=f"spec.nodeName={name}")
        pods: list[dict[str, Any]] = self._plain(self._try(method))["items"]
        return pods

    def patch(self, name: str, body: dict[str, Any]) -> None:
        self._try(self._api.patch_node, name, body)

    def _try(self, method: Any, *arguments: Any) -> Any:
        try:
            return method(*arguments, _request_timeout=self._timeout_s)
        except self._errors as error:
            status = int(getattr(error, "status", 0) or 0)
            raise ApiError(status, f"{status} {getattr(error, 'reason', error)}".strip()) from error
