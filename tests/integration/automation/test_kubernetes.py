"""Tests the cordon of nodes by the official client against a real API server, with the rights that the README names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from railsight_automation.engine import Engine
from railsight_automation.journal import Journal
from railsight_automation.kubernetes_nodes import KubernetesHosts, KubernetesParams, OfficialClient
from railsight_automation.planning import Parts

from tests.fixtures.automation import ACTOR, NOW_NS, RecordedAnswers, remediation
from tests.fixtures.kubernetes_api import KubernetesApi, kubernetes_api

pytestmark = pytest.mark.timeout(240)
KEY = "railsight.io/remediation"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TARGET = {"id": "device:host1", "a": {"device": "host1"}, "role": "device"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    """Yield an API server with one node, and a user that may get and patch nodes."""
    pytest.importorskip("kubernetes", reason="the official client is not installed (pip install kubernetes)")
    with kubernetes_api(tmp_path_factory.mktemp("kubernetes")) as running:
        rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}]
        running.call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "netbot"}, "rules": rules})
        running.call("POST", f"{RBAC}/clusterrolebindings", {
            "metadata": {"name": "netbot"}, "subjects": [{"kind": "User", "name": "netbot"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "netbot"},
        })  # fmt: skip
        taint = {"key": "example.com/kind", "value": "gpu", "effect": "NoSchedule"}
        running.call("POST", "/api/v1/nodes", {"metadata": {"name": "host1"}, "spec": {"taints": [taint]}})
        yield running


class Hosts:
    """The automation of hosts with the official client."""

    def __init__(self, api: KubernetesApi, folder: Path) -> None:
        self.api = api
        self.path = folder / "journal.jsonl"
        self.params = KubernetesParams(str(api.kubeconfig(folder / "kubeconfig", "netbot")))
        self.sent = RecordedAnswers()

    async def act(self, identity: str, action: str, **more: Any) -> list[str]:
        """Carry out a remediation; return its outcomes."""
        journal = Journal(self.path)
        try:
            parts = Parts([KubernetesHosts(self.params, OfficialClient(self.params))])
            engine = Engine(journal, parts, self.sent, ACTOR, lambda: NOW_NS, retry_s=0.01)
            await engine.observe(remediation(identity, action, **({"target": TARGET} | more)))
            await engine.carry_out(identity)
        finally:
            journal.close()
        return self.sent.outcomes(identity)

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
