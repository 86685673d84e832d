"""A real API server takes the exported labels and Kueue's Topology as `kubectl apply --server-side` sends them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from streams.locality.export.write import export_text
from streams.locality.params import LocalityParams
from tests.fixtures.kubernetes_api import KubernetesApi, kubernetes_api
from tests.worlds.localities import clos_groups, state

pytestmark = pytest.mark.timeout(240)
DOCUMENT: dict[str, Any] = json.loads(export_text(state(), "kubernetes", "tree", LocalityParams())[0])
TOPOLOGY, *NODES = DOCUMENT["items"]
TOPOLOGIES = "/apis/kueue.x-k8s.io/v1beta2/topologies"
_LEVELS = {
    "type": "array", "minItems": 1, "maxItems": 16,
    "items": {
        "type": "object", "required": ["nodeLabel"],
        "properties": {"nodeLabel": {"type": "string", "minLength": 1, "maxLength": 316}},
    },
    "x-kubernetes-validations": [
        {"rule": "size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0", "message": "a level twice"},
        {"rule": "size(self.filter(i, i.nodeLabel == 'kubernetes.io/hostname')) == 0 "
                 "|| self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'", "message": "the host must be last"},
    ],
}  # fmt: skip
"""The rules of Kueue's own definition: docs of kueue.x-k8s.io, Topology."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    """Yield an API server that knows Kueue's Topology."""
    with kubernetes_api(tmp_path_factory.mktemp("kubernetes")) as running:
        spec = {"type": "object", "required": ["levels"], "properties": {"levels": _LEVELS}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        version = {"name": "v1beta2", "served": True, "storage": True, "schema": schema}
        running.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
            "metadata": {"name": "topologies.kueue.x-k8s.io"},
            "spec": {
                "group": "kueue.x-k8s.io", "scope": "Cluster", "versions": [version],
                "names": {"plural": "topologies", "singular": "topology", "kind": "Topology"},
            },
        })  # fmt: skip
        running.until_served(TOPOLOGIES)
        yield running


def path_of(item: dict[str, Any]) -> str:
    """Return the path of an object."""
    return f"{TOPOLOGIES if item['kind'] == 'Topology' else '/api/v1/nodes'}/{item['metadata']['name']}"


def test_what_is_applied_is_read_back_equal(api: KubernetesApi) -> None:
    """Every node has the exported labels, and the Topology its levels; a second time nothing changes."""
    versions = []
    for _ in range(2):
        for item in DOCUMENT["items"]:
            api.apply(path_of(item), item)
        found = [api.call("GET", path_of(item)) for item in DOCUMENT["items"]]
        versions.append([one["metadata"]["resourceVersion"] for one in found])
    assert versions[0] == versions[1]
    topology, *nodes = found
    assert topology["spec"] == TOPOLOGY["spec"]
    assert [node["metadata"]["labels"] for node in nodes] == [node["metadata"]["labels"] for node in NODES]
    assert len(nodes) == 8


def test_the_levels_of_the_topology_are_labels_of_every_node(api: KubernetesApi) -> None:
    """Kueue places by these labels; the hostname is the kubelet's. The nodes of a unit are found by its label."""
    for item in DOCUMENT["items"]:
        api.apply(path_of(item), item)
    *levels, host = [level["nodeLabel"] for level in TOPOLOGY["spec"]["levels"]]
    assert host == "kubernetes.io/hostname"
    assert all(set(levels) <= node["metadata"]["labels"].keys() for node in NODES)
    unit = levels[-1]
    value = NODES[0]["metadata"]["labels"][unit]
    found = api.call("GET", f"/api/v1/nodes?labelSelector={unit}%3D{value}")
    assert sorted(item["metadata"]["name"] for item in found["items"]) == sorted(
        node["metadata"]["name"] for node in NODES if node["metadata"]["labels"][unit] == value
    )
    assert 0 < len(found["items"]) < len(NODES)


def test_labels_of_three_tiers_are_accepted(api: KubernetesApi) -> None:
    """Each tier has its key; the server checks names and values."""
    exported = export_text(state(groups=clos_groups()), "kubernetes", "tree", LocalityParams())[0]
    for item in json.loads(exported)["items"]:
        item["metadata"]["name"] = f"three-tiers-{item['metadata']['name']}"
        api.apply(path_of(item), item)
        assert item["kind"] == "Topology" or len(item["metadata"]["labels"]) == 3
