"""Vendor profiles: the subscriptions of devices, and the mapping of their native values to the catalogue."""

import struct
from pathlib import Path

import numpy as np
import orjson
import pytest
from pydantic import ValidationError

from collectors.core.columns import Reading
from collectors.core.metrics import CollectorMetrics
from collectors.core.params import TargetParams
from collectors.gnmi import subscription_plans
from collectors.gnmi.device_output import DeviceIdentity, facts_of
from collectors.gnmi.params import Params, Target
from collectors.gnmi.parse import Connection
from collectors.gnmi.path_mapping import PathMapping, path_mapping
from collectors.gnmi.paths import from_text, to_message
from collectors.gnmi.profile import COMMON, DeviceHints, Profile, chosen, profiles
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, Neighbor, Source
from tests.fixtures.gnmi_notifications import S, notification

T = 1_700_000_000 * S
PAGE = Path(__file__).parents[3] / "docs/collectors/gnmi.md"
Values = dict[str, int | str | bytes]


class Device:
    """A simulated device; its values by (port, metric, lane)."""

    def __init__(self, mapping: PathMapping | None = None) -> None:
        self.memory = DeviceIdentity()
        self.metrics = CollectorMetrics()
        self.connection = Connection("leaf1", Params(), self.memory, self.metrics, on_change=True, mapping=mapping)

    def send(self, values: Values, prefix: str = "", at_ns: int = T) -> None:
        self.connection.process(notification(at_ns, values, prefix=prefix), at_ns)

    def read(self, now_ns: int = T + S) -> dict[tuple[str, str, int], float]:
        self.connection.synced()
        reading = self.connection.flush(now_ns)
        assert isinstance(reading, Reading)
        found = {}
        for table, absent in ((reading.counters, ABSENT_COUNTER), (reading.gauges, None)):
            for metric, index, values in zip(table.metric, table.index, table.values, strict=True):
                for row, value in zip(reading.row, values, strict=True):
                    if value != absent and not np.isnan(value):
                        found[row, Metric(metric).name.lower(), int(index)] = float(value)
        return found


def blob(value: object) -> bytes:
    return orjson.dumps(value)


def test_every_profile_is_on_the_page_and_subscribes_to_paths() -> None:
    """A profile is found by its file, is named on the page, and its subscriptions are paths."""
    page = PAGE.read_text()
    for name, profile in profiles().items():
        assert f"| `{name}` |" in page
        assert profile.source
        assert name == COMMON or profile.models
        for ask in (*profile.subscribe, *profile.facts):
            assert from_text(ask.path)
            for instead in ask.fallback:
                assert from_text(instead)


def test_every_leaf_of_every_profile_is_found_by_its_path() -> None:
    """A line of a table that no path matches would be a metric that is silently never read."""
    mapping = path_mapping()
    for profile in profiles().values():
        for section in profile.section:
            for below in section.below:
                for path in section.leaves:
                    text = f"{below}/{path}".replace("{row}", "e1").replace("{lane}", "2").replace("{other}", "o")
                    leaf = mapping.leaf(from_text(text))
                    assert leaf is not None, (profile.name, text)
                    if leaf.metric is not None and "{lane}" in f"{below}/{path}":
                        assert leaf.row == "e1"
                        assert leaf.index in (1, 2)


def test_an_invalid_profile_is_refused() -> None:
    """A misspelt metric or key is an error in the file, not an absent value."""
    whole = {"name": "x", "source": "y"}
    for leaves in ({"a": {"metric": "rx_bites"}}, {"a": {"metric": "rx_bytes", "ranc": 1}}):
        with pytest.raises(ValidationError):
            Profile.model_validate(whole | {"section": [{"below": ["/a"], "leaves": leaves}]})
    with pytest.raises(ValidationError, match="unknown profile"):
        Target(name="a", address="b:1", profiles=("missing",))


def test_capabilities_select_profiles_models_and_encodings() -> None:
    """A vendor's models select its profile, subscriptions of unlisted models are left out."""
    everything = chosen((), DeviceHints())
    assert [profile.name for profile in everything] == [COMMON]
    assert len(subscription_plans.selected(everything, DeviceHints())) == len(profiles()[COMMON].subscribe)
    hints = DeviceHints(
        frozenset({gnmi_pb2.JSON_IETF, gnmi_pb2.JSON}), ("sonic-port", "http://oc:openconfig-interfaces")
    )
    selected_profiles = chosen((), hints)
    assert [profile.name for profile in selected_profiles] == ["sonic", COMMON]
    subscriptions = subscription_plans.selected(selected_profiles, hints)
    assert {ask.path for ask in subscriptions if ask.target} >= {"/COUNTERS/Ethernet*", "/PORT_TABLE"}
    assert "/interfaces/interface/state/counters" in {ask.path for ask in subscriptions}
    assert not any(ask.path.startswith(("/qos", "/components")) for ask in subscriptions)
    assert subscription_plans.encodings("auto", selected_profiles, hints) == ["json_ietf", "json"]
    assert subscription_plans.encodings("auto", everything, DeviceHints(frozenset({gnmi_pb2.ASCII}))) == ["ascii"]
    assert subscription_plans.encodings("auto", everything, DeviceHints(frozenset({gnmi_pb2.BYTES}))) == [
        "proto",
        "json_ietf",
        "json",
        "ascii",
    ]
    assert subscription_plans.encodings("json", everything, DeviceHints(frozenset({gnmi_pb2.PROTO}))) == ["json"]
    assert [p.name for p in chosen(("nokia-srl",), hints)] == ["nokia-srl", COMMON]


def test_a_subscription_has_one_target_and_origin() -> None:
    """SONiC's databases and OpenConfig have separate streams; modules of a native path stay in requests."""
    hints = DeviceHints(models=("sonic-port", "openconfig-interfaces", "huawei-ifm"))
    plan = next(subscription_plans.subscription_plans("json_ietf", chosen((), hints), hints))
    requests = [request.subscribe for request in plan.requests(10 * S)]
    assert sorted(request.prefix.target for request in requests) == ["", "APPL_DB", "COUNTERS_DB", "STATE_DB"]
    assert sum(len(request.subscription) for request in requests) == len(plan.subscriptions)
    modes = {
        subscriptions.path.elem[0].name: subscriptions.mode
        for request in requests
        for subscriptions in request.subscription
    }
    assert modes["PORT_TABLE"] == gnmi_pb2.ON_CHANGE and modes["COUNTERS"] == gnmi_pb2.SAMPLE
    assert "huawei-ifm:ifm" in modes
    assert ("PORT_TABLE",) in plan.on_change and (
        "ifm",
        "interfaces",
        "interface",
        "dynamic",
        "oper-status",
    ) in plan.on_change


def test_sonics_databases_are_read_by_port_priority_queue_and_lane() -> None:
    """JSON tables under the name of each port: PFC, queues, FEC bins, state and speed, light from lane 1."""
    device = Device()
    port = {"SAI_PORT_STAT_PFC_3_RX_PKTS": "7", "SAI_PORT_STAT_IF_IN_OCTETS": "9",
            "SAI_PORT_STAT_IF_IN_FEC_CODEWORD_ERRORS_S15": "2", "SAI_PORT_STAT_PFC_3_ON2OFF_RX_PKTS": "1",
            "SAI_PORT_STAT_TRIM_PACKETS": "100", "SAI_PORT_STAT_TX_TRIM_PACKETS": "98",
            "SAI_PORT_STAT_CBFC_SENDER_CREDITS_USED": "12",
            "SAI_PORT_STAT_LLR_RX_OK": "80", "SAI_PORT_STAT_LLR_RX_BAD": "6", "SAI_PORT_STAT_LLR_RX_POISONED": "5",
            "SAI_PORT_STAT_LLR_TX_REPLAY": "4", "SAI_PORT_STAT_LLR_TX_DISCARD": "0"}  # fmt: skip
    device.send({"/COUNTERS/Ethernet*": blob({"Ethernet0": port, "Ethernet4": {"SAI_PORT_STAT_PFC_0_TX_PKTS": "3"}})})
    device.send({"/COUNTERS/Ethernet*/Queues": blob({"Ethernet0:5": {"SAI_QUEUE_STAT_DROPPED_PACKETS": "4"}})})
    watchdog = {"PFC_WD_STATUS": "stormed", "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED": "5",
                "PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED": "4"}  # fmt: skip
    device.send({"/COUNTERS/Ethernet*/Pfcwd": blob({"Ethernet0:3": watchdog})})
    device.send({"/PORT_TABLE": blob({"Ethernet0": {"oper_status": "up", "admin_status": "up", "speed": "400000"}})})
    light = {"rx1power": "-1.5", "rx8power": "-inf", "tx1bias": "N/A", "temperature": "41.5"}
    device.send({"/TRANSCEIVER_DOM_SENSOR": blob({"Ethernet0": light})})
    assert device.read() == {
        ("Ethernet0", "pfc_rx_frames", 3): 7, ("Ethernet0", "rx_bytes", -1): 9, ("Ethernet0", "oper_up", -1): 1,
        ("Ethernet0", "fec_codewords_by_errors", 15): 2, ("Ethernet0", "pfc_rx_transitions", 3): 1,
        ("Ethernet0", "trimmed_packets", -1): 100, ("Ethernet0", "trimmed_tx_packets", -1): 98,
        ("Ethernet0", "credits_used", -1): 12,
        **{("Ethernet0", f"pfc_watchdog_{name}", 3): value for name, value in
           {"storms": 5, "restores": 4, "stormed": 1}.items()},
        ("Ethernet0", "llr_rx_ok", -1): 80, ("Ethernet0", "llr_rx_bad", -1): 6, ("Ethernet0", "llr_rx_poisoned", -1): 5,
        ("Ethernet0", "llr_tx_replays", -1): 4, ("Ethernet0", "llr_tx_discards", -1): 0,
        ("Ethernet4", "pfc_tx_frames", 0): 3, ("Ethernet0", "queue_dropped_packets", 5): 4,
        ("Ethernet0", "admin_up", -1): 1, ("Ethernet0", "speed_bps", -1): 400e9,
        ("Ethernet0", "rx_power_dbm", 0): -1.5, ("Ethernet0", "module_temperature_c", -1): 41.5,
    }  # fmt: skip
    assert device.metrics.value("unreadable") == 0
    device.send({"/LLDP_ENTRY_TABLE": blob({"Ethernet0": {"lldp_rem_sys_name": "s1", "lldp_rem_port_id": "e7"}})})
    assert facts_of("leaf1", T, Source.SOURCE_GNMI, device.memory).neighbors == (Neighbor("Ethernet0", "s1", "e7"),)


def test_priorities_of_other_vendors() -> None:
    """Cumulus has them in the leaf's name, Enterprise SONiC in a list's key, as leaves and as JSON."""
    device = Device()
    device.send({"in-pfc3-packets": 5}, "/interfaces/interface[name=swp1]/ethernet/state/counters")
    below = "/qos/interfaces/interface[interface-id=Eth1]/pfc/pfc-priorities"
    device.send({"pfc-priority[dot1p=4]/state/statistics/pause-frames-rx": 6}, below)
    device.send({below: blob({"pfc-priority": [{"dot1p": 5, "state": {"statistics": {"pause-frames-tx": "8"}}}]})})
    assert device.read() == {
        ("swp1", "pfc_rx_frames", 3): 5, ("Eth1", "pfc_rx_frames", 4): 6, ("Eth1", "pfc_tx_frames", 5): 8,
    }  # fmt: skip


def test_sr_linux_is_read_by_its_native_model() -> None:
    """Statistics as text, `enable` and `up`, speed as `400G`, channels from 1."""
    device = Device()
    interface = {"oper-state": "up", "admin-state": "enable", "ethernet": {"port-speed": "400G"},
                 "statistics": {"in-octets": "5"},
                 "transceiver": {"channel": [{"index": 1, "input-power": {"latest-value": "-2.5"}}]}}  # fmt: skip
    device.send({"/srl_nokia-interfaces:interface[name=ethernet-1/1]": blob(interface)})
    e1 = "ethernet-1/1"
    assert device.read() == {
        (e1, "oper_up", -1): 1, (e1, "admin_up", -1): 1, (e1, "speed_bps", -1): 400e9, (e1, "rx_bytes", -1): 5,
        (e1, "rx_power_dbm", 0): -2.5,
    }  # fmt: skip


CHANNEL = "/components/component[name={}]/transceiver/physical-channels/channel[index={}]/state"


def test_a_modules_light_is_assigned_to_the_port_that_holds_it() -> None:
    """Reported under the component until then; a module of several ports stays separate; other sensors are ignored."""
    device = Device()
    device.send({"output-power/instant": "-1.25"}, CHANNEL.format("xcvr1", 0))
    device.send({"instant": "50"}, "/components/component[name=xcvr1]/state/temperature")
    device.send({"instant": "33"}, "/components/component[name=Inlet]/state/temperature")
    assert device.read() == {("xcvr1", "tx_power_dbm", 0): -1.25, ("xcvr1", "module_temperature_c", -1): 50}
    device.send({"/interfaces/interface[name=e1]/state/transceiver": "xcvr1"}, at_ns=T + 10 * S)
    device.send({"output-power/instant": "-1.5"}, CHANNEL.format("xcvr1", 0), at_ns=T + 10 * S)
    assert device.read(T + 14 * S) == {("e1", "tx_power_dbm", 0): -1.5}
    device.send({"/interfaces/interface[name=e2]/state/transceiver": "xcvr1"}, at_ns=T + 20 * S)
    device.send({"output-power/instant": "-1.75"}, CHANNEL.format("xcvr1", 1), at_ns=T + 20 * S)
    assert device.read(T + 24 * S) == {("xcvr1", "tx_power_dbm", 1): -1.75}


def test_modules_are_facts_by_number_and_port() -> None:
    """Part, serial and firmware of each transceiver, and the port that holds it; a fan is ignored."""
    device = Device()
    for name, kind in (("x1", "oc-platform-types:TRANSCEIVER"), ("x2", "TRANSCEIVER"), ("fan", "FAN")):
        hints: Values = {"type": kind, "part-no": "P1", "serial-no": f"S-{name}", "firmware-version": "2.0"}
        device.send(hints, f"/components/component[name={name}]/state")
    device.send({"/interfaces/interface[name=e1]/state/transceiver": "x1"})
    assert [(c.name, c.kind, c.part_number, c.serial, c.firmware, c.alias)
            for c in facts_of("leaf1", T, Source.SOURCE_GNMI, device.memory).components] == [
        ("x1", "transceiver", "P1", "S-x1", "2.0", ("e1",)), ("x2", "transceiver", "P1", "S-x2", "2.0", ()),
    ]  # fmt: skip


def test_every_setting_is_on_the_page() -> None:
    """Every setting is on the page by its name."""
    selected_profiles = Params.model_fields.keys() - TargetParams.model_fields.keys()
    page = PAGE.read_text()
    assert [name for name in selected_profiles if f"`{name}`" not in page] == []


def test_sessions_are_rows_of_their_port_or_of_their_neighbor() -> None:
    """BFD by interface; BGP by the port of an unnumbered neighbor, or by an address. ADMIN_DOWN is absent."""
    neighbor = (
        "/network-instances/network-instance[name=default]/protocols/protocol[identifier=BGP][name=BGP]/bgp/neighbors"
        "/neighbor[neighbor-address={}]/state/session-state"
    )
    bfd = "/bfd/interfaces/interface[id={}]/peers/peer[local-discriminator=7]/state/session-state"
    device = Device()
    device.send({
        bfd.format("e1"): "UP", bfd.format("e2"): "openconfig-bfd:DOWN", bfd.format("e3"): "ADMIN_DOWN",
        neighbor.format("e1"): "ESTABLISHED", neighbor.format("10.0.0.1"): "ACTIVE",
    })  # fmt: skip
    assert device.read() == {
        ("e1", "bfd_session_up", -1): 1, ("e2", "bfd_session_up", -1): 0,
        ("e1", "bgp_session_up", -1): 1, ("10.0.0.1", "bgp_session_up", -1): 0,
    }  # fmt: skip


def test_values_in_every_form_that_the_specification_has() -> None:
    """The same light as a float, a double, a decimal, bytes, base64, text, ASCII and a list of one."""
    path = to_message(from_text(CHANNEL.format("x", 0) + "/input-power"))
    forms = [gnmi_pb2.TypedValue() for _ in range(9)]
    forms[0].float_val, forms[1].double_val, forms[2].string_val, forms[3].ascii_val = -3.5, -3.5, "-3.5", " -3.5"
    forms[4].decimal_val.digits, forms[4].decimal_val.precision = -35, 1
    forms[5].bytes_val = struct.pack(">f", -3.5)
    forms[6].json_ietf_val, forms[7].json_val = b'"wGAAAA=="', b"[-3.5]"
    forms[8].leaflist_val.element.add().decimal_val.CopyFrom(gnmi_pb2.Decimal64(digits=-350, precision=2))
    for value in forms:
        device = Device()
        sent = gnmi_pb2.Notification(timestamp=T)
        sent.update.add(path=path, val=value)
        device.connection.process(gnmi_lite_pb2.Notification.FromString(sent.SerializeToString()), T)
        assert device.read() == {("x", "rx_power_dbm", 0): -3.5}, value


def test_a_delete_of_a_container_covers_what_is_below_it_and_nothing_else() -> None:
    """The state of one port is cleared; its counters, and its neighbor's state, are not."""
    device = Device()
    for port in ("e1", "e2"):
        device.send({"state/oper-status": "UP", "state/counters/in-octets": 1}, f"/interfaces/interface[name={port}]")
    gone = notification(T, {}, delete=("/interfaces/interface[name=e1]/state/oper-status", "/interfaces/interface/x"))
    device.connection.process(gone, T)
    assert device.read() == {("e1", "rx_bytes", -1): 1, ("e2", "rx_bytes", -1): 1, ("e2", "oper_up", -1): 1}
    device.connection.process(
        notification(T + 10 * S, {}, delete=("/interfaces/interface[name=e2]/state",)), T + 10 * S
    )
    device.send({"state/counters/in-octets": 2}, "/interfaces/interface[name=e1]", at_ns=T + 10 * S)
    assert device.read(T + 14 * S) == {("e1", "rx_bytes", -1): 2}


def profiled(*names: str) -> Device:
    """Return a device that is read with these profiles first."""
    return Device(path_mapping(names))


def test_arista_has_pfc_and_its_watchdog_of_unicast_queues() -> None:
    """The time of pauses is in ns there; a multicast queue of the same index is another queue."""
    device = profiled("arista")
    pfc = "/interfaces/interface[name=Ethernet1]/ethernet/pfc"
    device.send({
        f"{pfc}/priorities/priority[index=3]/state/in-frames": 5,
        f"{pfc}/priorities/priority[index=3]/state/pfc-on-total-rx-time": 7_000_499,
        f"{pfc}/watchdog/tx-queues/tx-queue[index=3][queue-type=UNICAST]/state/stuck-count": 2,
        f"{pfc}/watchdog/tx-queues/tx-queue[index=3][queue-type=MULTICAST]/state/stuck-count": 9,
    })  # fmt: skip
    assert device.read() == {
        ("Ethernet1", "pfc_rx_frames", 3): 5, ("Ethernet1", "pfc_rx_pause_useconds", 3): 7000,
        ("Ethernet1", "pfc_watchdog_storms", 3): 2,
    }  # fmt: skip


def test_ios_xr_has_ber_as_text_optics_by_lane_and_pfc_of_all_classes() -> None:
    """Lanes are list entries without a key, in JSON with their number beside them; hundredths of dBm and mA."""
    device = profiled("iosxr")
    lanes = [
        {"lane-index": lane, "receive-power": -212 - lane, "laser-bias-current-milli-amps": 680} for lane in (1, 2)
    ]
    device.send({"/optics-oper/optics-ports/optics-port[name=Optics0/0/0/5]/optics-info": blob({"lane-data": lanes})})
    device.send({
        "/ethernet-interface/interfaces/interface[interface-name=FourHundredGigE0/0/0/5]/phy-info": blob({
            "fec-ber": {"pre-fec-ber": "1.2E-08", "post-fec-ber": "0"},
            "fec-details": {"corrected-codeword-count": "77", "uncorrected-codeword-count": "1"},
        }),
        "/ethernet-interface/pfc-statistics/pfc-statistic[interface-name=FourHundredGigE0/0/0/5]": blob(
            {"total-rx-frames": "31", "rx-frame": [{"entry": "31"}]}
        ),
    })  # fmt: skip
    port, optics = "FourHundredGigE0/0/0/5", "Optics0/0/0/5"
    assert device.read() == {
        (optics, "rx_power_dbm", 0): pytest.approx(-2.13), (optics, "rx_power_dbm", 1): pytest.approx(-2.14),
        (optics, "bias_ma", 0): pytest.approx(6.8), (optics, "bias_ma", 1): pytest.approx(6.8),
        (port, "pre_fec_ber", -1): pytest.approx(1.2e-8), (port, "post_fec_ber", -1): 0.0,
        (port, "fec_corrected_codewords", -1): 77, (port, "fec_uncorrected_codewords", -1): 1,
        (port, "pfc_rx_frames", -1): 31,
    }  # fmt: skip


def test_nx_os_has_pfc_ecn_and_watermarks_of_queues_by_class_map() -> None:
    """The queue's number ends the name of its class map; the default's has none."""
    device = profiled("nxos")
    queues = "/System/ipqos-items/queuing-items/policy-items/out-items/intf-items/If-list[name=eth1/1]/queCmap-items"
    queue = {"pfcRxPpp": 4, "randEcnMarkedPackets": 6, "maxQueueDepth": 90_000, "statType": "x"}
    device.send({queues: blob({"QueuingStats-list": [
        queue | {"cmapName": "c-out-8q-q3"}, queue | {"cmapName": "c-out-8q-q-default"}]})})  # fmt: skip
    assert device.read() == {
        ("eth1/1", "pfc_rx_frames", 3): 4, ("eth1/1", "ecn_marked_packets", 3): 6,
        ("eth1/1", "queue_watermark_bytes", 3): 90_000,
    }  # fmt: skip


def test_junos_has_queues_of_its_queue_monitor_and_pfc_of_its_state() -> None:
    """qmon-sw, which was not read; ingress queues are not the port's queues."""
    device = profiled("juniper")
    monitor = "/junos/system/linecard/qmon-sw[name=et-0/0/1]"
    device.send({
        f"{monitor}/egress[queue-number=3]/packets": 5, f"{monitor}/egress[queue-number=3]/tail-drop-packets": 2,
        f"{monitor}/egress[queue-number=3]/peak-buffer-occupancy-bytes": 4096,
        f"{monitor}/ingress[queue-number=3]/packets": 9,
        "/state/interfaces/interface[name=et-0/0/1]/counters/pfc[priority=4]/in-pkts": 8,
        "/state/interfaces/interface[name=et-0/0/1]/counters/errors/out-ecn-ce-marked-pkts": 7,
    })  # fmt: skip
    assert device.read() == {
        ("et-0/0/1", "queue_tx_packets", 3): 5, ("et-0/0/1", "queue_dropped_packets", 3): 2,
        ("et-0/0/1", "queue_watermark_bytes", 3): 4096, ("et-0/0/1", "pfc_rx_frames", 4): 8,
        ("et-0/0/1", "port_ecn_marked_packets", -1): 7,
    }  # fmt: skip


def test_sr_linux_has_ber_pfc_and_watermarks() -> None:
    """By its native models of Ethernet and QoS."""
    device = profiled("nokia-srl")
    fec = "/interface[name=ethernet-1/1]/ethernet/forward-error-correction/statistics/host-if-fec-router"
    qos = "/qos/interfaces/interface[interface-id=ethernet-1/1]"
    device.send({
        f"{fec}/pre-fec-ber/instant": "0.000000012", f"{qos}/pfc/statistics/pfc-priority[index=3]/pfc-transitions": 4,
        f"{qos}/output/queues/queue[queue-name=unicast-3]/queue-depth/high-watermark-1": 555,
    })  # fmt: skip
    assert device.read() == {
        ("ethernet-1/1", "pre_fec_ber", -1): pytest.approx(1.2e-8), ("ethernet-1/1", "pfc_rx_transitions", 3): 4,
        ("ethernet-1/1", "queue_watermark_bytes", 3): 555,
    }  # fmt: skip


def test_a_name_in_literal_quotes_is_read_without_them() -> None:
    """Some devices quote the keys of their paths."""
    device = Device()
    device.send({'/interfaces/interface[name="1"]/state/counters/in-octets': 5})
    assert device.read() == {("1", "rx_bytes", -1): 5}
