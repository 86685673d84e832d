"""NetBox's REST JSON: generated fabrics round-trip, exports of 3.x and 4.x are read, bad ones are refused."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.world.demo_fabric import DemoShape, inventory
from streams.cli.main import main
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.inventory import Device, Inventory, Link, PortName, read_folder, write_folder
from streams.report.inventory_draft import Draft
from streams.report.netbox.from_inventory import netbox_export
from streams.report.netbox.objects import read_exports
from streams.report.netbox.to_inventory import draft_from_netbox
from streams.wire.errors import Misconfigured
from tests.worlds import small_fabric

Json = dict[str, Any]
DEMO = inventory(DemoShape(), 1_800_000_000 * 10**9)
ONE_TIER = generate(GenerateParams(gpus=16, radix=16, rails=2, gpus_per_host=4, jobs=0))
PLANES = generate(GenerateParams(gpus=64, radix=8, rails=2, gpus_per_host=4, planes=2))
THREE_TIERS = generate(GenerateParams(gpus=256, radix=16, rails=4, gpus_per_host=4, jobs=0))
MAINTENANCE = small_fabric.inventory(maintenance=("s1",), until="2026-12-01T00:00:00+00:00")


def of_files(folder: Path, files: Mapping[str, object], gpus_per_host: int = 0) -> Draft:
    """Write the files and return the draft of them."""
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return draft_from_netbox(read_exports([folder / f"{name}.json" for name in files]), gpus_per_host)


@pytest.mark.parametrize("own", [DEMO, ONE_TIER, PLANES, THREE_TIERS, MAINTENANCE])
def test_an_inventory_round_trips(tmp_path: Path, own: Inventory) -> None:
    """Every column of devices and links, in order; only missing speeds are doubts; jobs and aliases are lost."""
    own = replace(own, ports=(PortName(own.devices[0].name, "e0", "x"),))
    made = netbox_export(own)
    draft = of_files(tmp_path, made.answers)
    assert draft.inventory == replace(own, jobs=(), ports=())
    has_speeds = all(link.speed_bps for link in own.links)
    assert [doubt.column for doubt in draft.doubts] == ([] if has_speeds else ["speed_bps"])
    jobs = [f"{len(own.jobs)} jobs"] if own.jobs else []
    assert made.lost == [*jobs, "1 aliases of ports"]


def test_all_columns_round_trip(tmp_path: Path) -> None:
    """Identities, tenants and ids too; a speed of no whole kbit/s and a contradictory role are reported as lost."""
    devices = (
        Device("h", "host", "host", "", None, "v", "m", 0, "i", "s", "f", "x", "t", None, "n", rack="A12 U3"),
        Device("l", "switch", "storage", "p", 3, "", "m"),
    )
    link = Link("l", "1", "h", "e0", "host-link", None, 2, 400_000_000_000, "cable-1", "PP3/12")
    own = Inventory(devices, (link, Link("h", "e1", "l", "2", "fabric-link", 1, None, 1)))
    made = netbox_export(own)
    assert made.lost == ["1 speeds that are no whole kbit/s", "1 roles of links against their ends"]
    draft = of_files(tmp_path, made.answers)
    lossy = own.links[1]._replace(role="host-link", speed_bps=None)
    assert draft.inventory == replace(own, links=(link, lossy))


def device(number: int, name: str, role: str, **more: object) -> Json:
    """Return a device as NetBox 4.x has it, without custom fields."""
    return {
        "id": number, "url": f"https://netbox.example/api/dcim/devices/{number}/", "name": name,
        "role": {"id": 1, "name": role.title(), "slug": role}, "serial": "", "tenant": None, "asset_tag": None,
        "device_type": {"id": 1, "model": "DGX", "manufacturer": {"id": 1, "name": "NVIDIA", "slug": "nvidia"}},
        "site": {"id": 1, "name": "DC1", "slug": "dc1"}, "custom_fields": {}, "tags": [], **more,
    }  # fmt: skip


def interface(number: int, of: int, name: str, **more: object) -> Json:
    return {
        "id": number, "url": f"https://netbox.example/api/dcim/interfaces/{number}/", "name": name,
        "device": {"id": of, "name": "any"}, "type": {"value": "400gbase-x-osfp", "label": "OSFP (400GE)"},
        "speed": None, "mgmt_only": False, "custom_fields": {}, "tags": [], **more,
    }  # fmt: skip


def cable(number: int, a: int, b: int, kind: str = "dcim.interface", **more: object) -> Json:
    return {
        "id": number, "url": f"https://netbox.example/api/dcim/cables/{number}/",
        "a_terminations": [{"object_type": "dcim.interface", "object_id": a, "object": {"id": a}}],
        "b_terminations": [{"object_type": kind, "object_id": b, "object": {"id": b}}],
        "status": {"value": "connected", "label": "Connected"}, "custom_fields": {}, "tags": [], **more,
    }  # fmt: skip


def answer(results: list[Json], **more: object) -> Json:
    return {"count": len(results), "next": None, "previous": None, "results": results, **more}


def small() -> Json:
    """Return exports of two hosts with two NICs each, two leaves and a spine, without a custom field."""
    devices = [
        device(1, "h1", "gpu-server"), device(2, "h2", "gpu-server"), device(3, "leaf1", "leaf"),
        device(4, "leaf2", "leaf"), device(5, "spine1", "spine"),
    ]  # fmt: skip
    interfaces = [interface(10 * host + nic, host, f"mlx5_{nic}") for host in (1, 2) for nic in (0, 1)]
    interfaces += [interface(10 * leaf + port, leaf, f"Ethernet{port}") for leaf in (3, 4) for port in (1, 2, 3)]
    interfaces += [interface(51, 5, "Ethernet1"), interface(52, 5, "Ethernet2")]
    pairs = [(10, 31), (11, 41), (20, 32), (21, 42), (33, 51), (43, 52)]
    cables = [cable(number, a, b) for number, (a, b) in enumerate(pairs, 1)]
    return {"devices": answer(devices), "interfaces": answer(interfaces), "cables": answer(cables)}


def test_columns_that_netbox_lacks_are_derived_and_marked(tmp_path: Path) -> None:
    """Kinds by role, tiers by distance, rails by the order of ports, speeds by interface type; guesses are doubts.

    The rack and the labels of a cable and of its interfaces are as in NetBox.
    """
    exports = small()
    exports["devices"]["results"][0] |= {"rack": {"id": 1, "name": "A12"}, "position": 14.0}
    exports["interfaces"]["results"][0] |= {"label": "slot 3"}
    exports["cables"]["results"][0] |= {"label": "C-204"}
    draft = of_files(tmp_path, exports)
    h1, *_, spine = draft.inventory.devices
    assert h1 == Device("h1", "host", "host", "pod-1", None, "NVIDIA", "DGX", site="DC1", rack="A12 U14")
    assert [link.label for link in draft.inventory.links][:2] == ["C-204, slot 3 at h1", ""]
    assert spine == Device("spine1", "switch", "T1", "", None, "NVIDIA", "DGX", site="DC1")
    assert [row.tier for row in draft.inventory.devices] == ["host", "host", "T0", "T0", "T1"]
    assert [(link.role, link.rail) for link in draft.inventory.links] == [
        ("host-link", 0), ("host-link", 1), ("host-link", 0), ("host-link", 1),
        ("fabric-link", None), ("fabric-link", None),
    ]  # fmt: skip
    assert {link.speed_bps for link in draft.inventory.links} == {400_000_000_000}
    assert {(doubt.table, doubt.column) for doubt in draft.doubts} == {
        ("devices", "pod"), ("devices", "plane"), ("devices", "gpus"), ("links", "rail"),
    }  # fmt: skip
    assert {row.gpus for row in of_files(tmp_path, small(), 8).inventory.devices} == {8, 0}


def test_shapes_of_older_releases_are_the_same(tmp_path: Path) -> None:
    """NetBox before 3.6 has `device_role`, before 3.3 one termination at each end; a list needs no envelope."""
    old = small()
    for each in old["devices"]["results"]:
        each["device_role"] = each.pop("role")
    for each in old["cables"]["results"]:
        for end in "ab":
            (only,) = each.pop(f"{end}_terminations")
            each |= {f"termination_{end}_type": only["object_type"], f"termination_{end}_id": only["object_id"]}
    old["interfaces"] = old["interfaces"]["results"]
    assert of_files(tmp_path, old) == of_files(tmp_path, small())
    nested = small()
    for each in nested["cables"]["results"]:
        del each["a_terminations"][0]["object_id"]
    assert of_files(tmp_path, nested) == of_files(tmp_path, small())


def test_custom_fields_and_tags_have_columns(tmp_path: Path) -> None:
    """A tag NAME:VALUE is as good as a custom field; a blank where others of the tier have a value is marked."""
    files = small()
    h1, h2, leaf1, *_ = files["devices"]["results"]
    h1["tags"] = [{"name": "pod:east", "slug": "pod-east"}, {"name": "gpus:4", "slug": "gpus-4"}]
    h2["custom_fields"] = {"railsight_pod": None, "railsight_plane": 1}
    leaf1["custom_fields"] = {"railsight_tier": "T0", "railsight_kind": "switch"}
    files["interfaces"]["results"][0]["tags"] = [{"name": "rail:5", "slug": "rail-5"}]
    draft = of_files(tmp_path, files)
    assert [(row.pod, row.gpus, row.plane) for row in draft.inventory.devices[:3]] == [
        ("east", 4, None), ("", 0, 1), ("", 0, None),
    ]  # fmt: skip
    assert [link.rail for link in draft.inventory.links] == [5, None, None, None, None, None]
    marked = {(doubt.row, doubt.column) for doubt in draft.doubts}
    assert marked == {
        ("h2", "pod"), ("h1", "plane"), ("h2", "gpus"), ("h1/mlx5_1 -- leaf2/Ethernet1", "rail"),
        ("h2/mlx5_0 -- leaf1/Ethernet2", "rail"), ("h2/mlx5_1 -- leaf2/Ethernet2", "rail"),
    }  # fmt: skip


def test_a_cable_of_several_pairs_is_as_many_links_if_netbox_traces_them(tmp_path: Path) -> None:
    """The two ends of a twin-port cable, in whatever order they are listed."""
    files = small()
    more = [interface(12, 1, "mlx5_2"), interface(13, 1, "mlx5_3"), interface(34, 3, "Ethernet4"),
            interface(35, 3, "Ethernet5")]  # fmt: skip
    for one, far in zip(more, (35, 34, 13, 12), strict=True):
        one |= {"connected_endpoints": [{"id": far}], "connected_endpoints_type": "dcim.interface",
                "connected_endpoints_reachable": True}  # fmt: skip
    twin = cable(7, 12, 34)
    twin["a_terminations"].append({"object_type": "dcim.interface", "object_id": 13})
    twin["b_terminations"].append({"object_type": "dcim.interface", "object_id": 35})
    files["interfaces"]["results"] += more
    files["cables"]["results"].append(twin)
    links = {(str(link.a.port), str(link.z.port)) for link in of_files(tmp_path, files).inventory.links}
    assert links >= {("mlx5_2", "Ethernet5"), ("mlx5_3", "Ethernet4")} and len(links) == 8


def test_a_device_without_a_name_is_left_out_with_its_cables(tmp_path: Path) -> None:
    """The rest of the fabric is in the draft; a spare without a name is not even a doubt about a cable."""
    files = small()
    files["devices"]["results"][1]["name"] = None
    files["devices"]["results"].append(device(6, "", "gpu-server"))
    draft = of_files(tmp_path, files)
    assert [row.name for row in draft.inventory.devices] == ["h1", "leaf1", "leaf2", "spine1"]
    assert len(draft.inventory.links) == 4
    found = [(doubt.row, doubt.reason) for doubt in draft.doubts if "has no name" in doubt.reason]
    assert found == [
        ("NetBox device 2", "left out: it has no name; name it in NetBox"),
        ("NetBox cable 3", "left out: NetBox device 2 has no name"),
        ("NetBox cable 4", "left out: NetBox device 2 has no name"),
    ]


def reasons(draft: Draft) -> list[tuple[str, str]]:
    """Return what the draft leaves out or joins."""
    return [(one.row, one.reason) for one in draft.doubts if one.reason.startswith(("left out", "joined"))]


def test_devices_of_one_name_at_two_sites_are_left_out_with_their_cables(tmp_path: Path) -> None:
    """The rest of both sites is in the draft; telemetry does not distinguish the two."""
    files = small()
    files["devices"]["results"][1] |= {"name": "h1", "site": {"id": 2, "name": "München", "slug": "muc"}}
    draft = of_files(tmp_path, files)
    assert [row.name for row in draft.inventory.devices] == ["leaf1", "leaf2", "spine1"]
    both = "left out: devices 1 of site DC1, 2 of site München have the name h1; rename one, or export one site"
    cables = [(f"NetBox cable {n}", f"left out: NetBox device {(n + 1) // 2} has the name h1, as another one has")
              for n in (1, 2, 3, 4)]  # fmt: skip
    assert reasons(draft) == [("NetBox device 1", both), ("NetBox device 2", both), *cables]


@pytest.mark.parametrize("kind", ["interfaces", "devices"])
def test_a_cable_to_what_is_in_no_file_is_left_out(tmp_path: Path, kind: str) -> None:
    """Exports of one site have its cables to other sites."""
    files = small()
    gone = [one for one in files[kind]["results"] if one["id"] in (10, 1)]
    files[kind] = answer([one for one in files[kind]["results"] if one not in gone])
    draft = of_files(tmp_path, files)
    reason = ("left out: it ends at interface {}, which with its device is in no file; give the exports of interfaces "
              "and devices without a filter")  # fmt: skip
    rows = [("NetBox cable 1", reason.format(10)), ("NetBox cable 2", reason.format(11))]
    assert reasons(draft) == (rows if kind == "devices" else rows[:1])
    assert len(draft.inventory.links) == (4 if kind == "devices" else 5)


def test_a_virtual_chassis_is_its_master_if_its_ports_have_names_of_their_own(tmp_path: Path) -> None:
    """A member may have no name; the cable between two members is no link. A pair with equal names is two switches."""
    files = small()
    chassis = {"id": 9, "name": "vc", "master": {"id": 3, "name": "leaf1"}}
    for number in (2, 3):
        files["devices"]["results"][number]["virtual_chassis"] = chassis
    assert len(of_files(tmp_path, files).inventory.devices) == 5
    files["devices"]["results"][3]["name"] = None
    for one in files["interfaces"]["results"]:
        if one["device"]["id"] == 4:
            one["name"] = f"Ethernet2/{one['id'] % 10}"
    files["interfaces"]["results"] += [interface(38, 3, "stack1"), interface(48, 4, "stack2")]
    files["cables"]["results"].append(cable(7, 38, 48))
    files["cables"]["count"] += 1
    draft = of_files(tmp_path, files)
    assert [row.name for row in draft.inventory.devices] == ["h1", "h2", "leaf1", "spine1"]
    assert ("leaf1", "Ethernet2/1") in {end for link in draft.inventory.links for end in (link.a, link.z)}
    assert len(draft.inventory.links) == 6
    assert reasons(draft) == [
        ("NetBox device 4", "joined with leaf1, the master of its virtual chassis"),
        ("NetBox cable 7", "left out: both its ends are at leaf1"),
    ]


def test_a_trunk_to_a_patch_panel_is_as_many_links_as_netbox_traces(tmp_path: Path) -> None:
    """Four lanes of a breakout, each an interface, lead to four hosts through a cassette; of one of eight lanes
    without a path the whole trunk is left out.
    """
    files, lanes = small(), range(4)
    files["devices"]["results"] += [device(100 + n, f"knoten-ü{n}", "gpu-server") for n in lanes]
    files["devices"]["results"] += [device(110, "panel", "patch-panel")]
    for one in files["devices"]["results"][-5:-1]:
        one |= {"role": None, "custom_fields": {"railsight_kind": "host"}}
    ends = [(interface(300 + n, 3, f"Ethernet9/{n + 1}"), interface(400 + n, 100 + n, "mlx5_0")) for n in lanes]
    for a, z in ends:
        for one, far in ((a, z), (z, a)):
            one |= {"connected_endpoints": [{"id": far["id"]}], "connected_endpoints_type": "dcim.interface",
                    "connected_endpoints_reachable": True}  # fmt: skip
    trunk = cable(7, 300, 900, kind="dcim.rearport")
    trunk["a_terminations"] = [{"object_type": "dcim.interface", "object_id": 300 + n} for n in lanes]
    files["interfaces"]["results"] += [one for pair in ends for one in pair]
    files["cables"]["results"] += [trunk, *(cable(10 + n, 400 + n, 910 + n, kind="dcim.frontport") for n in lanes)]
    for kind in ("devices", "interfaces", "cables"):
        files[kind]["count"] = len(files[kind]["results"])
    links = {(*link.a, *link.z) for link in of_files(tmp_path, files).inventory.links}
    assert links >= {("leaf1", f"Ethernet9/{n + 1}", f"knoten-ü{n}", "mlx5_0") for n in lanes} and len(links) == 10
    ends[0][0]["connected_endpoints_reachable"] = False
    draft = of_files(tmp_path, files)
    assert len(draft.inventory.links) == 10 and [row for row, _ in reasons(draft) if row] == ["NetBox cable 7"]


def test_what_is_no_link_of_the_fabric_is_left_out(tmp_path: Path) -> None:
    """Planned, patched and broken-out cables and devices of other roles are doubts; management ports are not."""
    files = small()
    files["devices"] = files["devices"]["results"] + [device(6, "", "pdu"), device(7, "fw1", "firewall")]
    more = [interface(number, of, f"x{number}") for number, of in ((61, 1), (62, 1), (63, 3), (64, 3), (65, 3))]
    more += [interface(71, 7, "e0"), interface(66, 1, "bmc", mgmt_only=True), interface(67, 3, "m")]
    files["interfaces"] = files["interfaces"]["results"] + more
    breakout = cable(9, 62, 64)
    breakout["b_terminations"].append({"object_type": "dcim.interface", "object_id": 65})
    files["cables"] = [
        *files["cables"]["results"], cable(7, 61, 63, status={"value": "planned", "label": "Planned"}),
        cable(8, 61, 900, kind="dcim.frontport"), breakout, cable(10, 63, 71), cable(11, 66, 67),
        cable(12, 1, 2, kind="dcim.poweroutlet") | {"a_terminations": [{"object_type": "dcim.powerport",
                                                                       "object_id": 1}]},
    ]  # fmt: skip
    draft = of_files(tmp_path, files)
    assert draft.inventory == of_files(tmp_path, small()).inventory
    assert [(doubt.row, doubt.reason) for doubt in draft.doubts if doubt.reason.startswith("left out")] == [
        ("", "left out: 1 of role Firewall (fw1): no host or switch by role or railsight_kind, or neither a link nor "
             "railsight_tier"),
        ("", "left out: 1 of role Pdu (NetBox device 6): no host or switch by role or railsight_kind, or neither a "
             "link nor railsight_tier"),
        ("NetBox cable 7", "left out: its status is planned"),
        ("NetBox cable 8", "left out: it leads from an interface to dcim.frontport, and NetBox has no path from "
                            "there to another interface; add the link by hand"),
        ("NetBox cable 9", "left out: it joins 1 with 2 interfaces (h1/x62 with leaf1/x64, leaf1/x65), and NetBox "
                            "traces no pairs; give each lane of a breakout its own interface and cable, or add its "
                            "link by hand"),
        ("NetBox cable 10", "left out: fw1 is no host or switch"),
    ]  # fmt: skip


def test_a_path_through_patch_panels_is_one_link(tmp_path: Path) -> None:
    """Two cables to panels are the link that NetBox traces, once; a path without a far end is marked."""
    files = small()
    first, *_ = files["cables"]["results"]
    near, far = first["a_terminations"][0]["object_id"], first["b_terminations"][0]["object_id"]
    for each in files["interfaces"]["results"]:
        if each["id"] in (near, far):
            each |= {
                "connected_endpoints": [{"id": far if each["id"] == near else near, "name": "any"}],
                "connected_endpoints_type": "dcim.interface", "connected_endpoints_reachable": True,
            }  # fmt: skip
    files["cables"]["results"][:1] = [cable(1, near, 900, kind="dcim.frontport")]
    files["cables"]["results"].append(cable(9, far, 901, kind="dcim.frontport"))
    files["cables"]["count"] += 1
    assert of_files(tmp_path, files) == of_files(tmp_path, small())
    files["interfaces"]["results"][0]["connected_endpoints_reachable"] = False
    left_out = [doubt.row for doubt in of_files(tmp_path, files).doubts if doubt.reason.startswith("left out")]
    assert left_out == ["NetBox cable 1"]


def test_speeds_of_the_ends(tmp_path: Path) -> None:
    """The speed of an interface is in kbit/s and goes before its type; of two the lower one, with a doubt."""
    files = small()
    first, *_ = files["interfaces"]["results"]
    first["speed"] = 200_000_000
    for number in (1, 7):
        files["interfaces"]["results"][number]["type"] = {"value": "other", "label": "Other"}
    draft = of_files(tmp_path, files)
    assert [link.speed_bps for link in draft.inventory.links[:2]] == [200_000_000_000, None]
    assert [(doubt.row, doubt.reason) for doubt in draft.doubts if doubt.column == "speed_bps"] == [
        ("", "1 links: no speed and no type with one"),
        ("h1/mlx5_0 -- leaf1/Ethernet1", "its ends have 200000000000 and 400000000000"),
    ]


def test_a_speed_of_1_6_tbit_and_one_of_0(tmp_path: Path) -> None:
    """A type of NetBox 4.3 and later; a speed of 0, which NetBox admits, is none."""
    files = small()
    for one in files["interfaces"]["results"]:
        one["type"], one["speed"] = {"value": "1.6tbase-dr8", "label": "1.6TBASE-DR8"}, 0
    assert {link.speed_bps for link in of_files(tmp_path, files).inventory.links} == {1_600_000_000_000}


def _set(table: str, number: int, **more: object) -> Callable[[Json], object]:
    return lambda files: files[table]["results"][number].update(more)


REFUSED: dict[str, tuple[Callable[[Json], object], str]] = {
    "id twice": (
        _set("devices", 1, id=1, url=""),
        "devices.json: device 1 is also in FOLDER/devices.json; export each object once",
    ),
    "interface name twice": (
        _set("interfaces", 1, name="mlx5_0"),
        "interfaces.json: interface 11 has the name mlx5_0 on h1, as interface 10 has; rename one in NetBox",
    ),
    "interface with two cables": (
        _set("cables", 1, a_terminations=[{"object_type": "dcim.interface", "object_id": 10}]),
        "cables.json: cable 2 ends at interface 10, as cable 1 does; correct one of the two in NetBox",
    ),
    "both ends at one interface": (
        _set("cables", 0, b_terminations=[{"object_type": "dcim.interface", "object_id": 10}]),
        "cables.json: cable 1 ends twice at one of the interfaces [10, 10]; correct it in NetBox",
    ),
    "next page": (
        lambda files: files["cables"].update(count=9, next="https://netbox.example/api/dcim/cables/?offset=6"),
        "cables.json: is incomplete (6 of 9 cables, `next` is https://netbox.example/api/dcim/cables/?offset=6); fetch "
        "the other pages and give all files together",
    ),
    "next page, no count": (
        lambda files: files["cables"].update(count=None, next="x"),
        "cables.json: is incomplete (6 of an unknown number of cables, `next` is x); fetch the other pages and give "
        "all files together",
    ),
    "no results of many": (
        lambda files: files["cables"].update(count=6, results=[]),
        "cables.json: is incomplete (0 of 6 objects); fetch the other pages and give all files together",
    ),
    "another endpoint": (
        _set("cables", 0, url="https://netbox.example/api/dcim/front-ports/4/", id=4),
        "cables.json: object 4 is of /api/dcim/front-ports/; give exports of /api/dcim/devices/, "
        "/api/dcim/interfaces/ and /api/dcim/cables/",
    ),
    "brief": (
        lambda files: files["devices"]["results"][0].pop("role"),
        "devices.json: device 1: role required and not set; export without brief=1 and without a choice of fields",
    ),
    "no kind": (
        lambda files: files.update(devices=answer([{"id": 3, "display": "h1"}])),
        "devices.json: object 3 is no device, interface or cable; export without brief=1 and without a choice of "
        "fields",
    ),
    "type": (
        _set("interfaces", 0, speed="fast"),
        "interfaces.json: interface 10: speed 'fast' must be a whole number; export without brief=1 and without a "
        "choice of fields",
    ),
    "custom field": (
        _set("devices", 2, custom_fields={"railsight_plane": "red"}),
        "devices.json: device 3 has railsight_plane 'red': must be a whole number; correct it in NetBox",
    ),
    "custom field with yes or no": (
        _set("devices", 2, custom_fields={"railsight_plane": True}),
        "devices.json: device 3 has railsight_plane 'True': must be a whole number; correct it in NetBox",
    ),
    "custom field of a link": (
        _set("cables", 2, custom_fields={"railsight_rail": -1}),
        "cables.json: cable 3 has railsight_rail '-1': must be at least 0; correct it in NetBox",
    ),
    "custom field of another type": (
        _set("devices", 2, custom_fields={"railsight_tier": {"id": 3}}),
        "devices.json: device 3 has railsight_tier {'id': 3}: must be a text; correct it in NetBox",
    ),
    "kind": (
        _set("devices", 2, custom_fields={"railsight_kind": "router"}),
        "devices.json: device 3 has railsight_kind 'router'; set it to host or switch in NetBox",
    ),
    "cable against interface": (
        lambda files: (
            _set("cables", 0, custom_fields={"railsight_rail": 1})(files),
            _set("interfaces", 0, custom_fields={"railsight_rail": 2})(files),
        ),
        "cables.json: cable 1 has rail '1' and '2', at the cable and its interfaces; correct one in NetBox",
    ),
    "no results": (
        lambda files: files.update(devices={"detail": "Invalid token"}),
        "devices.json: is neither a list nor an object with `results`; save the answer of a list, such as "
        "/api/dcim/cables/?limit=0",
    ),
    "no object": (
        lambda files: files.update(devices=["h1"]),
        "devices.json: object 1 is 'h1' and not an object; save the answer unchanged",
    ),
    "count": (
        lambda files: files["devices"].update(count="five"),
        "devices.json: `count` is 'five' and not a number; save the answer unchanged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_exports_are_refused(tmp_path: Path, case: str) -> None:
    """One error, with the file, the id of the object and the next step."""
    change, message = REFUSED[case]
    files = small()
    change(files)
    with pytest.raises(Misconfigured) as refused:
        of_files(tmp_path, files)
    assert str(refused.value) == f"{tmp_path}/{message}".replace("FOLDER", str(tmp_path))


def test_exports_without_devices_and_files_that_are_none(tmp_path: Path) -> None:
    """The error has the file, or the export that is missing."""
    with pytest.raises(Misconfigured, match="no device in the exports; give one of /api/dcim/devices/ too"):
        of_files(tmp_path, {"cables": []})
    with pytest.raises(Misconfigured, match=r"none\.json: cannot be read: No such file"):
        read_exports([tmp_path / "none.json"])
    (tmp_path / "page.json").write_text("<html>")
    with pytest.raises(Misconfigured, match=r"page\.json: is not JSON \(.*\); save the answer of the REST API"):
        read_exports([tmp_path / "page.json"])


def test_all_pages_together_are_complete(tmp_path: Path) -> None:
    """Two pages of one list are accepted; one of them twice is not."""
    files = small()
    results = files["cables"]["results"]
    files["cables"] = answer(results[:4], count=6, next="page 2")
    files["more"] = answer(results[4:], count=6, previous="page 1")
    assert of_files(tmp_path, files) == of_files(tmp_path, small())


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Export and import give the same folder; neither replaces files without --force."""
    own, out, read = tmp_path / "own", tmp_path / "out", tmp_path / "read"
    write_folder(PLANES, own)
    assert run("inventory", "export", own, out) == 0
    files = [out / f"{name}.json" for name in ("devices", "interfaces", "cables")]
    assert run("inventory", "import", "--format", "netbox", *files, read) == 0
    assert read_folder(read) == replace(PLANES, jobs=())
    assert (read / "doubts.csv").read_text() == "table,row,column,reason\n"
    printed, errors = capsys.readouterr()
    assert f"{out}: exported for netbox; {len(PLANES.devices)} devices, {2 * len(PLANES.links)} interfaces, " in printed
    assert errors == f"railsight inventory: not in the export: {len(PLANES.jobs)} jobs\n"
    assert run("inventory", "export", own, out) == 2
    assert run("inventory", "import", *files, read) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "out has devices.json, interfaces.json, cables.json; choose another folder" in first
    assert "read has an inventory (devices.csv, links.csv)" in second
    (tmp_path / "pdu.json").write_text(json.dumps([device(1, "pdu1", "pdu")]))
    assert run("inventory", "import", tmp_path / "pdu.json", tmp_path / "none") == 2
    assert "no host or switch with a link among 1 devices and 0 cables; give the exports of" in capsys.readouterr().err
