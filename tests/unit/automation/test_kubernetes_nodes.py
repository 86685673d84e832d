"""Tests the cordon of Kubernetes' nodes with an API in memory, whose versions conflict as the real one's do."""

from pathlib import Path
from typing import Any

import pytest
from railsight_automation.errors import DeviceError, Refused
from railsight_automation.kubernetes_nodes import ApiError, KubernetesHosts, KubernetesParams
from railsight_automation.plan import Parts

from tests.fixtures.automation import RecordedAnswers, act, remediation

OTHER_TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
TARGET = {"id": "device:host1", "a": {"device": "host1"}, "role": "device"}


def cordoned_by(manager: str) -> list[dict[str, Any]]:
    """Return the managed fields of a node whose cordon a manager set."""
    return [{"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]


class MemoryNodes:
    """One node; `conflicts` patches are refused because the node was changed in between."""

    def __init__(self) -> None:
        self.node: dict[str, Any] = {
            "metadata": {"name": "host1", "resourceVersion": "1"}, "spec": {"taints": [dict(OTHER_TAINT)]},
        }  # fmt: skip
        self.running: list[dict[str, Any]] = []
        self.conflicts = 0
        self.is_away = False

    def read(self, name: str) -> dict[str, Any]:
        if self.is_away:
            raise ApiError(0, "0 connection refused")
        if name != "host1":
            raise ApiError(404, "404 Not Found")
        return self.node

    def pods(self, name: str) -> list[dict[str, Any]]:
        return self.running

    def patch(self, name: str, body: dict[str, Any]) -> None:
        version = int(self.node["metadata"]["resourceVersion"])
        if self.conflicts:
            self.conflicts -= 1
            version += 1
        if body["metadata"]["resourceVersion"] != str(version):
            self.node["metadata"]["resourceVersion"] = str(version)
            raise ApiError(409, "409 Conflict")
        annotations = self.node["metadata"].get("annotations", {}) | body["metadata"]["annotations"]
        managed = self.node["metadata"].get("managedFields", [])
        if self.node["spec"].get("unschedulable", False) != body["spec"].get("unschedulable", False):
            managed = cordoned_by("railsight-automation")
        self.node = {
            "metadata": {
                "name": name,
                "managedFields": managed,
                "resourceVersion": str(version + 1),
                "annotations": {key: value for key, value in annotations.items() if value is not None},
            },
            "spec": self.node["spec"] | body["spec"],
        }


class Hosts:
    """The automation of hosts with an API in memory."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"
        self.api = MemoryNodes()
        self.sent = RecordedAnswers()

    async def act(self, identity: str, action: str, **more: Any) -> list[str]:
        """Carry out a remediation; return its outcomes."""
        parts = Parts([KubernetesHosts(KubernetesParams(), self.api)])
        return await act(self.path, parts, self.sent, remediation(identity, action, **({"target": TARGET} | more)))


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    """Return an automation with a schedulable node."""
    return Hosts(tmp_path)


async def test_a_conflict_is_tried_again_from_what_is_there(hosts: Hosts) -> None:
    """The kubelet changes a node all the time."""
    hosts.api.conflicts = 3
    assert await hosts.act("r1", "CORDON_HOST") == ["ACCEPTED", "DONE"]
    hosts.api.conflicts = 9
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert "changed by others at each of 5 tries" in hosts.sent.detail("r2")
    hosts.api.conflicts = 0
    assert await hosts.act("r3", "UNCORDON_HOST") == ["ACCEPTED", "DONE"]


async def test_a_node_may_have_another_case_and_no_domain(hosts: Hosts) -> None:
    """The API is asked for each form of the name; a host that it has under none fails."""
    target = {"id": "device:d", "a": {"device": "HOST1.dc.example.net"}, "role": "device"}
    assert await hosts.act("r1", "CORDON_HOST", target=target) == ["ACCEPTED", "DONE"]
    assert hosts.api.node["spec"]["unschedulable"] is True
    target = {"id": "device:e", "a": {"device": "host2.dc.example.net"}, "role": "device"}
    assert await hosts.act("r2", "CORDON_HOST", target=target) == ["ACCEPTED", "FAILED"]


async def test_a_node_that_a_person_uncordoned_loses_our_taint_at_the_restore(hosts: Hosts) -> None:
    """`kubectl uncordon` leaves taints and annotations."""
    assert await hosts.act("r1", "CORDON_HOST") == ["ACCEPTED", "DONE"]
    hosts.api.node["spec"]["unschedulable"] = False
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "DONE"]
    assert hosts.api.node["spec"]["taints"] == [OTHER_TAINT]


def pod(name: str, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    """Return a pod of the node."""
    return {"metadata": {"namespace": "default", "name": name} | metadata, "status": {"phase": phase}}


async def test_a_node_is_busy_with_the_pods_that_a_drain_would_evict(hosts: Hosts) -> None:
    """DaemonSets and static pods stay on a drained node, and what is finished runs no more."""
    scheduler = KubernetesHosts(KubernetesParams(), hosts.api)
    daemon, static = [{"kind": "DaemonSet", "name": "cni"}], {"kubernetes.io/config.mirror": "x"}
    hosts.api.running = [
        pod("cni", ownerReferences=daemon), pod("proxy", annotations=static), pod("a", "Succeeded"), pod("b", "Failed"),
    ]  # fmt: skip
    assert await scheduler.why_busy("host1") == ""
    hosts.api.running += [pod("train-0"), pod("new", "Pending", ownerReferences=[{"kind": "ReplicaSet"}])]
    assert await scheduler.why_busy("host1") == "node host1 runs default/new, default/train-0"
    hosts.api.running = [pod(f"p{number}") for number in range(7)]
    assert (await scheduler.why_busy("host1")).endswith("default/p4 and 2 more")
    with pytest.raises(DeviceError, match="node nope: 404 Not Found"):
        await scheduler.why_busy("nope")


async def test_the_boot_id_is_the_kubelets(hosts: Hosts) -> None:
    """A node without one is an error, and no empty id."""
    scheduler = KubernetesHosts(KubernetesParams(), hosts.api)
    with pytest.raises(DeviceError, match="node host1 has no boot id"):
        await scheduler.boot("host1")
    hosts.api.node["status"] = {"nodeInfo": {"bootID": "b1"}}
    assert await scheduler.boot("host1") == "b1"


async def test_a_cordon_of_a_person_is_refused_for_an_operation(hosts: Hosts) -> None:
    """A person who cordoned the node may be at work there."""
    setting = KubernetesHosts(KubernetesParams(), hosts.api).cordon(remediation("r2", "REBOOT_HOST", target=TARGET))
    free = {"is_cordoned": False, "owner": "", "foreign": False}
    assert setting.out(free, "r2") == {"is_cordoned": True, "owner": "r2", "foreign": False}
    with pytest.raises(Refused, match="cordoned already: by another party"):
        setting.out({"is_cordoned": True, "owner": "", "foreign": True}, "r2")


@pytest.mark.parametrize("manager", ["kubectl-cordon", "", None])
async def test_a_person_who_cordons_again_wins(hosts: Hosts, manager: str | None) -> None:
    """The annotation is still ours, but another manager set the cordon: our taint is removed and the cordon stays."""
    assert await hosts.act("r1", "CORDON_HOST") == ["ACCEPTED", "DONE"]
    hosts.api.node["metadata"]["managedFields"] = [] if manager is None else cordoned_by(manager)
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert "remains out of use: not by a change of this automation" in hosts.sent.detail("r2")
    assert hosts.api.node["spec"] == {"taints": [OTHER_TAINT], "unschedulable": True}
    assert hosts.api.node["metadata"]["annotations"] == {}
