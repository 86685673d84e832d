"""The exports: Slurm's two files, Kubernetes' labels, JSON; and what is refused before it is written."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from streams.fabric.inventory import Device, Inventory
from streams.fabric.topology import Topology
from streams.locality.export.slurm import Plugin, compressed, expanded
from streams.locality.export.tree import problems_of, tree_of
from streams.locality.export.write import Format, export_text, fnv1a_64, label_value
from streams.locality.groups import Groups
from streams.locality.params import LabelKeys, LocalityParams
from streams.wire.errors import Misconfigured
from tests.worlds.localities import clos_groups, demo_groups, doubtful, state
from tests.worlds.small_fabric import link

PARAMS = LocalityParams()


def text(form: Format, plugin: Plugin = "tree", params: LocalityParams = PARAMS, **options: object) -> str:
    """Return an export of the demo's fabric."""
    return export_text(state(), form, plugin, params, **options)[0]  # type: ignore[arg-type]


def test_topology_conf_of_the_tree() -> None:
    """A unit is a leaf switch; leaves come before the switches above."""
    assert text("slurm").splitlines()[1:] == [
        "SwitchName=pod1-leaf1 Nodes=pod1-host[1-4]",
        "SwitchName=pod2-leaf1 Nodes=pod2-host[1-4]",
        "SwitchName=spine1 Switches=pod1-leaf1,pod2-leaf1",
    ]


def test_topology_conf_of_blocks() -> None:
    """A unit is a block; two blocks are the fabric."""
    assert text("slurm", "block").splitlines()[1:] == [
        "BlockName=pod1-leaf1 Nodes=pod1-host[1-4]",
        "BlockName=pod2-leaf1 Nodes=pod2-host[1-4]",
        "BlockSizes=4,8",
    ]


def test_topology_yaml_has_both_and_one_default() -> None:
    """The plugin chooses the default."""
    tree, block = yaml.safe_load(text("slurm-yaml", "block"))
    assert (tree["cluster_default"], block["cluster_default"]) == (False, True)
    assert tree["tree"]["switches"][2] == {"switch": "spine1", "children": "pod1-leaf1,pod2-leaf1"}
    assert block["block"] == {
        "block_sizes": [4, 8],
        "blocks": [
            {"block": "pod1-leaf1", "nodes": "pod1-host[1-4]"}, {"block": "pod2-leaf1", "nodes": "pod2-host[1-4]"},
        ],
    }  # fmt: skip


def test_kubernetes_has_kueues_levels_and_the_labels_of_topograph() -> None:
    """Widest level first, tier 0 is the unit."""
    kueue, *nodes = json.loads(text("kubernetes"))["items"]
    assert kueue["spec"]["levels"] == [
        {"nodeLabel": "fabric.topograph.run/tier-1"},
        {"nodeLabel": "fabric.topograph.run/tier-0"},
        {"nodeLabel": "kubernetes.io/hostname"},
    ]
    assert len(nodes) == 8
    assert nodes[0]["metadata"] == {
        "name": "pod1-host1",
        "labels": {"fabric.topograph.run/tier-0": "pod1-leaf1", "fabric.topograph.run/tier-1": "spine1"},
    }


def test_the_former_keys_of_topograph_are_a_setting() -> None:
    """A level without a key is refused."""
    keys = ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine")
    params = LocalityParams(labels=LabelKeys(fixed=keys))
    assert json.loads(text("kubernetes", params=params))["items"][1]["metadata"]["labels"] == {
        keys[0]: "pod1-leaf1", keys[1]: "spine1",
    }  # fmt: skip
    with pytest.raises(Misconfigured, match="2 levels and 1 label keys"):
        text("kubernetes", params=LocalityParams(labels=LabelKeys(fixed=keys[:1])))


def test_a_long_value_is_replaced_by_its_hash() -> None:
    """The vectors are of the specification's table."""
    vectors = {"": 0xCBF29CE484222325, "a": 0xAF63DC4C8601EC8C, "foobar": 0x85944171F73967E8}
    assert {given: fnv1a_64(given) for given in vectors} == vectors
    assert label_value("a" * 63) == "a" * 63
    assert label_value("a" * 64) == f"x{fnv1a_64('a' * 64):x}"


def test_json_has_the_tree_and_what_is_known_against_hosts() -> None:
    found = json.loads(export_text(state(doubtful("rail:pod1-host2/3")), "json", "tree", PARAMS)[0])
    assert found["groups"][0]["groups"][0] == {
        "name": "pod1-leaf1", "level": 0, "hosts": [f"pod1-host{number}" for number in range(1, 5)],
    }  # fmt: skip
    assert found["hosts"]["pod1-host2"]["usability"] == "doubtful"
    assert found["hosts"]["pod1-host1"]["ratio"] == {"T0": 1.0, "T1": 1.0}


def test_only_the_given_nodes_are_exported() -> None:
    """An empty unit is left out; a node outside of the inventory is refused by name."""
    assert text("slurm", nodes=["pod1-host1", "pod1-host3"]).splitlines()[1:] == [
        "SwitchName=pod1-leaf1 Nodes=pod1-host[1,3]",
        "SwitchName=spine1 Switches=pod1-leaf1",
    ]
    with pytest.raises(Misconfigured, match="no host of the inventory: login1"):
        text("slurm", nodes=["pod1-host1", "login1"])


def test_every_host_of_a_large_fabric_is_in_one_leaf() -> None:
    """And every group but the root is in one other."""
    groups = clos_groups()
    lines = export_text(state(groups=groups), "slurm", "tree", PARAMS)[0].splitlines()[1:]
    fields = [dict(part.split("=") for part in line.split()) for line in lines]
    hosts = [host for each in fields if "Nodes" in each for host in expanded(each["Nodes"])]
    assert sorted(hosts) == sorted(groups.graph.names[host] for host in groups.hosts.tolist())
    below = [name for each in fields if "Switches" in each for name in expanded(each["Switches"])]
    assert sorted(below) == sorted(each["SwitchName"] for each in fields[:-1])


def test_names_that_a_scheduler_would_read_otherwise_are_refused() -> None:
    """A host without a leaf is reported and left out."""
    devices = [Device("h [1]", "host", "host"), Device("h2", "host", "host"), Device("l1", "switch", "T0")]
    groups = Groups(Topology(Inventory(devices=tuple(devices), links=(link("h [1]/0", "l1/0", "host-link"),))))
    with pytest.raises(Misconfigured, match=r"'h \[1\]' is no name for a scheduler"):
        tree_of(groups)
    assert tree_of(groups, ["h2"]).without_leaf == ("h2",)
    assert problems_of(tree_of(demo_groups()), ["pod1-host1", "lost"]) == ["1 hosts are in no unit: lost"]


@pytest.mark.parametrize(
    ("names", "hostlist"),
    [
        (["h0", "h1", "h2", "h7"], "h[0-2,7]"),
        (["host-00009", "host-00010"], "host-[00009-00010]"),
        (["n08", "n09", "n10", "n100"], "n100,n[08-10]"),
        (["a1-x", "a2-x", "login"], "a[1-2]-x,login"),
        (["n1"], "n1"),
    ],
)
def test_a_hostlist_has_ranges_of_the_last_number(names: list[str], hostlist: str) -> None:
    assert compressed(names) == hostlist
    assert sorted(expanded(hostlist)) == sorted(names)


@given(st.sets(st.from_regex(r"[a-c-]{0,3}[0-9]{0,4}[a-b]?", fullmatch=True).filter(bool), max_size=30))
def test_a_hostlist_expands_to_its_names(names: set[str]) -> None:
    """For all names of letters, hyphens and digits."""
    assert sorted(expanded(compressed(names))) == sorted(names)


def test_another_text_is_no_hostlist() -> None:
    """Brackets without numbers, or a part that does not end."""
    for wrong in ("h[", "h[a-b]", "h[1-2]x]"):
        with pytest.raises(ValueError, match="no hostlist"):
            expanded(wrong)
