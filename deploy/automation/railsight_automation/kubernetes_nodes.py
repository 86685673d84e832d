"""Takes hosts out of use in Kubernetes: cordons and taints a node with the remediation's id, and undoes only that.

A cordon has no owner, so an annotation names the remediation. The taint's effect is NoSchedule: running pods stay.
"""

import asyncio
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict

from railsight_automation.errors import DeviceError, Misconfigured, Refused
from railsight_automation.journal import Change
from railsight_automation.messages import Remediation
from railsight_automation.node_names import names_of, plain_name, target_node
from railsight_automation.plan import Plan, Setting

_KIND = "kubernetes"
_CONFLICT, _NOT_FOUND = 409, 404
_TRIES = 5
_SHOWN = 5
_MANAGER = "railsight-automation"
_MANAGERS = {_MANAGER, "OpenAPI-Generator"}
"""The field managers of own cordons; the second is the client's default, of earlier versions."""


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
    """The state of a node; `owner` is the remediation of an own cordon, `foreign` a cordon of another party."""

    is_cordoned: bool
    owner: str
    foreign: bool


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
        return CordonState(is_cordoned=True, owner=remediation_id, foreign=False)

    def back(self, present: CordonState, change: Change) -> CordonState:
        """Return the state without the own taint and annotation; a cordon that another party set stays."""
        if present["owner"] != change.remediation_id:
            return present
        return CordonState(is_cordoned=present["foreign"], owner="", foreign=present["foreign"])

    def is_own(self, present: CordonState, change: Change) -> bool:
        return present["is_cordoned"] and present["owner"] == change.remediation_id and not present["foreign"]

    def is_out(self, present: CordonState) -> bool:
        return present["is_cordoned"]

    def _state(self, node: dict[str, Any]) -> CordonState:
        spec, annotations = node.get("spec", {}), node["metadata"].get("annotations", {})
        is_cordoned = bool(spec.get("unschedulable"))
        has_taint = any(taint["key"] == self.params.key for taint in spec.get("taints", ()))
        owner = annotations.get(self.params.key, "")
        is_own = bool(owner) and bool(managers := _cordoned_by(node)) and managers <= _MANAGERS
        # A taint without a cordon is left by `kubectl uncordon`: its node counts as returned.
        return CordonState(
            is_cordoned=is_cordoned or (has_taint and not owner), owner=owner, foreign=is_cordoned and not is_own
        )

    async def _patched(self, node: dict[str, Any], value: CordonState) -> bool:
        """Patch a node; return whether the version that was read was still the newest."""
        key, is_out = self.params.key, bool(value["owner"])
        taints = [taint for taint in node.get("spec", {}).get("taints", ()) if taint["key"] != key]
        if is_out:
            taints.append({"key": key, "value": value["owner"], "effect": "NoSchedule"})
        annotations = {key: value["owner"] or None, f"{key}-reason": self.reason if is_out else None}
        body: dict[str, Any] = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": annotations},
            "spec": {"taints": taints},  # a patch replaces the whole list of taints
        }
        if not value["foreign"]:
            body["spec"]["unschedulable"] = is_out
        try:
            await asyncio.to_thread(self.api.patch, node["metadata"]["name"], body)
        except ApiError as error:
            if error.status == _CONFLICT:
                return False
            raise DeviceError(f"node {self.node}: {error}") from error
        return True


def _cordoned_by(node: dict[str, Any]) -> set[str]:
    """Return the field managers that set `unschedulable`; empty if the API does not show them."""
    entries = node["metadata"].get("managedFields", ())
    return {
        str(entry.get("manager")) for entry in entries
        if "f:unschedulable" in entry.get("fieldsV1", {}).get("f:spec", {})
    }  # fmt: skip


class KubernetesHosts:
    """Plans the actions on hosts."""

    actions = ("CORDON_HOST", "UNCORDON_HOST")
    kind = _KIND

    def __init__(self, params: KubernetesParams, api: Nodes) -> None:
        self._params = params
        self._api = api

    def plan(self, remediation: Remediation) -> Plan:
        """Return the node of the host."""
        return Plan((self.cordon(remediation),))

    def at(self, address: str) -> Setting:
        """Return the setting of a journaled change."""
        return CordonSetting(self._api, self._params, address.partition(":")[2])

    def cordon(self, remediation: Remediation) -> Setting:
        """Return the cordon of the target's host for an operation."""
        node = target_node(remediation, self._params.nodes)
        return CordonSetting(self._api, self._params, node, remediation.reason)

    async def why_busy(self, device: str) -> str:
        """Return the pods that `kubectl drain` would evict: all except DaemonSet, static and finished pods."""
        host = plain_name(device, self._params.nodes)
        node = (await read_node(self._api, host))["metadata"]["name"]  # fails for an unknown node, which has no pods
        names = sorted(_name(pod) for pod in await _call(node, self._api.pods, node) if _is_work(pod))
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"node {node} runs {', '.join(names[:_SHOWN])}{more}" if names else ""

    async def boot(self, device: str) -> str:
        """Return the boot id of the node, as its kubelet reports it."""
        node = plain_name(device, self._params.nodes)
        info = (await read_node(self._api, node)).get("status", {}).get("nodeInfo", {})
        if not info.get("bootID"):
            raise DeviceError(f"node {node} has no boot id")
        return str(info["bootID"])


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
        self._try(functools.partial(self._api.patch_node, field_manager=_MANAGER), name, body)

    def _try(self, method: Any, *arguments: Any) -> Any:
        try:
            return method(*arguments, _request_timeout=self._timeout_s)
        except self._errors as error:
            status = int(getattr(error, "status", 0) or 0)
            raise ApiError(status, f"{status} {getattr(error, 'reason', error)}".strip()) from error
