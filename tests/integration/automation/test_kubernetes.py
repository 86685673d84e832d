"""Tests the actions on nodes by the official client, with the rights that the README names.

All run over a server in memory, and over a real API server where kube-apiserver and etcd are on PATH.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from railsight_automation.host_commands import CommandParams, HostCommands
from railsight_automation.kubernetes_nodes import KubernetesHosts, KubernetesParams, OfficialClient
from railsight_automation.plan import Parts

from tests.fakes.kubernetes_server import kubernetes_server
from tests.fixtures.automation import RecordedAnswers, act, remediation
from tests.fixtures.certificates import certificate
from tests.fixtures.kubernetes_api import KubernetesApi, kubernetes_api

pytestmark = pytest.mark.timeout(240)
KEY = "railsight.io/remediation"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TARGET = {"id": "device:host1", "a": {"device": "host1"}, "role": "device"}


@pytest.fixture(scope="module", params=["in-memory", "kube-apiserver"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    """Yield an API server with one node, and a user that may get and patch nodes and list pods."""
    folder = tmp_path_factory.mktemp("kubernetes")
    with ExitStack() as stack:
        if request.param == "in-memory":
            cert, key = certificate(folder, "api")
            running = KubernetesApi(stack.enter_context(kubernetes_server(cert, key)), cert)
        else:
            running = stack.enter_context(kubernetes_api(folder))
            grant(running)
        taint = {"key": "example.com/kind", "value": "gpu", "effect": "NoSchedule"}
        running.call("POST", "/api/v1/nodes", {"metadata": {"name": "host1"}, "spec": {"taints": [taint]}})
        boot(running, "b1")
        yield running


def grant(api: KubernetesApi) -> None:
    """Give the automation its rights, and the pods of a namespace their account."""
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]
    api.call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "netbot"}, "rules": rules})
    api.call("POST", f"{RBAC}/clusterrolebindings", {
        "metadata": {"name": "netbot"}, "subjects": [{"kind": "User", "name": "netbot"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "netbot"},
    })  # fmt: skip


def boot(api: KubernetesApi, boot_id: str) -> None:
    """Report a start of the node, as its kubelet does."""
    names = ("machineID", "systemUUID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
             "kubeProxyVersion", "operatingSystem", "architecture")  # fmt: skip
    info = dict.fromkeys(names, "x") | {"bootID": boot_id}
    api.call("PATCH", "/api/v1/nodes/host1/status", {"status": {"nodeInfo": info}})


class Hosts:
    """The automation of hosts with the official client."""

    def __init__(self, api: KubernetesApi, folder: Path) -> None:
        self.api = api
        self.path = folder / "journal.jsonl"
        self.params = KubernetesParams(str(api.kubeconfig(folder / "kubeconfig", "netbot")))
        self.sent = RecordedAnswers()
        self.commands: dict[str, CommandParams] = {}

    async def act(self, identity: str, action: str, **more: Any) -> list[str]:
        """Carry out a remediation; return its outcomes."""
        nodes = KubernetesHosts(self.params, OfficialClient(self.params))
        parts = Parts([nodes, HostCommands(self.commands, nodes)])
        return await act(self.path, parts, self.sent, remediation(identity, action, **({"target": TARGET} | more)))

    def node(self) -> tuple[bool, list[str], dict[str, str]]:
        """Return whether the node is cordoned, its taints by other parties and us, and our annotations."""
        node: Any = self.api.call("GET", "/api/v1/nodes/host1")
        taints = [f"{taint['key']}={taint.get('value', '')}" for taint in node["spec"].get("taints", ())]
        annotations = node["metadata"].get("annotations", {})
        return node["spec"].get("unschedulable", False), sorted(taints), annotations


async def test_a_cordoned_node_has_our_taint_and_is_uncordoned(api: KubernetesApi, tmp_path: Path) -> None:
    """The taint of another party remains; the reason is an annotation."""
    hosts = Hosts(api, tmp_path)
    before = hosts.node()
    assert await hosts.act("r1", "CORDON_HOST", reason="GPU off the bus") == ["ACCEPTED", "DONE"]
    is_cordoned, taints, annotations = hosts.node()
    assert is_cordoned and {"example.com/kind=gpu", f"{KEY}=r1"} <= set(taints)
    assert annotations == {KEY: "r1", f"{KEY}-reason": "GPU off the bus"}
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "DONE"]
    is_cordoned, taints, annotations = hosts.node()
    assert not is_cordoned and "example.com/kind=gpu" in taints and annotations == {}
    assert f"{KEY}=r1" not in taints and before[2] == {}


async def test_another_partys_cordon_remains(api: KubernetesApi, tmp_path: Path) -> None:
    """`kubectl cordon` of a person is neither taken over nor undone."""
    hosts = Hosts(api, tmp_path)
    api.call("PATCH", "/api/v1/nodes/host1", {"spec": {"unschedulable": True}})
    assert await hosts.act("r1", "CORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert hosts.node()[0]
    api.call("PATCH", "/api/v1/nodes/host1", {"spec": {"unschedulable": False}})


async def test_a_person_who_cordons_again_wins(api: KubernetesApi, tmp_path: Path) -> None:
    """`kubectl uncordon` and `cordon` change the field manager: our taint is removed, and the cordon stays."""
    hosts = Hosts(api, tmp_path)
    assert await hosts.act("r1", "CORDON_HOST") == ["ACCEPTED", "DONE"]
    for value in (False, True):
        api.call("PATCH", "/api/v1/nodes/host1?fieldManager=kubectl-cordon", {"spec": {"unschedulable": value}})
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "FAILED"]
    is_cordoned, taints, annotations = hosts.node()
    assert is_cordoned and f"{KEY}=r1" not in taints and annotations == {}
    api.call("PATCH", "/api/v1/nodes/host1", {"spec": {"unschedulable": False}})


async def test_errors_of_the_api_are_the_detail(api: KubernetesApi, tmp_path: Path) -> None:
    """An unknown node, a token that the server refuses, and a server that does not answer."""
    hosts = Hosts(api, tmp_path)
    assert await hosts.act("r1", "CORDON_HOST", target={"id": "d", "a": {"device": "nope"}}) == ["ACCEPTED", "FAILED"]
    assert "node nope: 404 Not Found" in hosts.sent.detail("r1")
    hosts.params = KubernetesParams(str(api.kubeconfig(tmp_path / "other", "stranger")))
    assert await hosts.act("r2", "CORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert "401 Unauthorized" in hosts.sent.detail("r2")
    away = KubernetesApi("https://127.0.0.1:1", api.ca)
    hosts.params = KubernetesParams(str(away.kubeconfig(tmp_path / "away", "netbot")), timeout_s=1)
    assert await hosts.act("r3", "CORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert "Connection refused" in hosts.sent.detail("r3")


async def test_a_node_with_pods_is_not_restarted_and_an_idle_one_by_its_boot_id(
    api: KubernetesApi, tmp_path: Path
) -> None:
    """The pods of a DaemonSet stay; a reboot leaves the node cordoned until UNCORDON_HOST."""
    hosts = Hosts(api, tmp_path)
    command = tmp_path / "reboot"
    command.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho power cycle of $2\n")
    command.chmod(0o755)
    hosts.commands = {"REBOOT_HOST": CommandParams((str(command),), idle_s=0.2, verify_s=30)}
    daemon = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cni", "uid": "u", "controller": True}]
    bind(api, "cni", ownerReferences=daemon)
    done = asyncio.create_task(hosts.act("r1", "REBOOT_HOST"))
    while not (tmp_path / "ran").exists() and not done.done():  # noqa: ASYNC110 — another process
        await asyncio.sleep(0.01)
    boot(api, "b2")
    assert await done == ["ACCEPTED", "DONE"]
    assert hosts.sent.detail("r1") == "b1 -> b2; power cycle of host1" and hosts.node()[0]
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "DONE"] and not hosts.node()[0]
    bind(api, "train-0")
    assert await hosts.act("r3", "REBOOT_HOST") == ["ACCEPTED", "FAILED"] and not hosts.node()[0]
    assert hosts.sent.detail("r3") == "not idle: node host1 runs default/train-0; every change was undone"


def bind(api: KubernetesApi, name: str, **metadata: Any) -> None:
    """Create a pod on the node."""
    spec = {"nodeName": "host1", "containers": [{"name": "c", "image": "x"}]}
    api.call("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": name} | metadata, "spec": spec})
