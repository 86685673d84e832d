"""Tests the parts of the automation without I/O: messages, configuration, planning, output of Slurm, independence."""

import ast
import json
import re
import sys
from pathlib import Path
from typing import cast

import pytest
from railsight_automation.__main__ import client_options
from railsight_automation.config import KafkaParams, load
from railsight_automation.errors import DeviceError, Misconfigured, Refused
from railsight_automation.gnmi_client import Access, GnmiClient, to_path
from railsight_automation.journal import Change
from railsight_automation.kubernetes_nodes import KubernetesHosts, KubernetesParams, Nodes
from railsight_automation.links import EnabledSetting, LinkParams, Links, PolicySetting
from railsight_automation.messages import decode_remediation, encode_result, rfc3339, unix_ns
from railsight_automation.plan import CONFIGURED_BY, Parts
from railsight_automation.slurm import NodeSetting, NodeState, SlurmHosts, SlurmParams, busy_text, node_state

from streams.wire import codec
from streams.wire.models import Action, Outcome, RemediationResult
from streams.wire.topics import BY_NAME, REMEDIATION_RESULTS, REMEDIATIONS
from tests.fixtures.automation import NOW_NS, remediation, remediation_json

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "deploy/automation/railsight_automation"
DOCKERFILE = ROOT / "deploy/automation/Dockerfile"
GOLDEN = ROOT / "tests/contract/wire/golden/railsight.remediations.v1.remediation.2.json"


def test_it_imports_of_the_pipeline_only_its_connection_to_kafka_and_the_server_of_its_health() -> None:
    """Beside them the standard library and the packages of its image; its image copies every file that it imports."""
    packages = {"aiokafka", "grpc", "google", "prometheus_client", "kubernetes", "urllib3", "cryptography"}
    shared = {"wire.kafka_login", "wire.kafka_refusals", "wire.tls_files", "health.http_names", "health.status_http"}
    modules = {f"streams.{name}": ROOT / f"streams/{name.replace('.', '/')}.py" for name in shared}
    imported: set[str] = set()
    for path in (*PACKAGE.glob("*.py"), *modules.values()):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
    others = {name for name in imported if name.partition(".")[0] not in {*packages, *sys.stdlib_module_names}}
    assert {name for name in others if not name.startswith("railsight_automation")} == set(modules)
    copied = {word for line in DOCKERFILE.read_text().splitlines() if line.startswith("COPY ") for word in line.split()}
    files = {path.relative_to(ROOT).as_posix() for path in modules.values()}
    assert files <= copied
    assert {f"!{file}" for file in files} <= set(DOCKERFILE.with_suffix(".dockerignore").read_text().splitlines())


def test_it_reads_the_golden_remediation_and_writes_a_result_that_the_pipeline_reads() -> None:
    """The public JSON, with nanoseconds."""
    read = decode_remediation(GOLDEN.read_bytes())
    assert (read.action, read.verdict, read.target_id) == ("DRAIN_LINK", "DENIED", "link:host1/e0--leaf1/e1")
    assert (read.state, read.actor) == ("DENIED", "decide")
    assert read.expires_at_ns % 10**9 == 123456789 and read.z is not None and read.z.port == "e1"
    data = encode_result("r1", "DONE", "netbot", "h1/0a", "changed x", {"x": '["IN"]'}, NOW_NS + 5)
    result = codec.from_json(RemediationResult, data)
    expected = RemediationResult("r1", Outcome.DONE, NOW_NS + 5, "netbot", "changed x", {"x": '["IN"]'}, "h1/0a")
    assert result == expected
    assert codec.from_json(RemediationResult, encode_result("r1", "DONE", "netbot", "", "x" * 10**5, {}, 1)).detail


def test_its_topics_are_the_pipelines() -> None:
    """The defaults of the configuration."""
    from railsight_automation.config import KafkaParams

    assert BY_NAME[KafkaParams().remediations] is REMEDIATIONS
    assert BY_NAME[KafkaParams().results] is REMEDIATION_RESULTS


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"id": "x", "target": null}', remediation_json(expiresAt="soon")]
)
def test_a_record_that_is_no_remediation_is_refused(data: bytes) -> None:
    """The service skips it."""
    with pytest.raises(ValueError, match="not a remediation"):
        decode_remediation(data)


@pytest.mark.parametrize("at_ns", [NOW_NS, NOW_NS + 1, NOW_NS + 123_456_789, 0])
def test_a_time_is_exact(at_ns: int) -> None:
    """Nanoseconds, which Python's datetime does not have."""
    assert unix_ns(rfc3339(at_ns)) == at_ns
    assert unix_ns("2026-09-21T14:13:20Z") == unix_ns("2026-09-21T16:13:20.000+02:00")


def links(**params: object) -> Links:
    client = GnmiClient({"leaf1": "127.0.0.1:1", "spine1": "127.0.0.1:2"}, Access())
    return Links(client, LinkParams(**params))  # type: ignore[arg-type]


def test_a_drain_sets_the_policies_of_both_ends() -> None:
    """An unnumbered neighbor has the name of its port; another one is configured."""
    plan = links(neighbors={"spine1": {"e1": "10.0.0.1"}}).plan(remediation())
    assert plan.hold == ()
    assert [setting.address for setting in plan.drain] == [
        f"gnmi:{device}:/network-instances/network-instance[name=default]/protocols"
        f"/protocol[identifier=BGP][name=BGP]/bgp/neighbors/neighbor[neighbor-address={neighbor}]"
        f"/apply-policy/config/{name}-policy"
        for device, neighbor in (("leaf1", "e1"), ("spine1", "10.0.0.1"))
        for name in ("export", "import")
    ]


def test_a_link_needs_targets_at_both_ends_except_a_hosts() -> None:
    """A host has no gNMI; a fabric link that is drained at one end only would lose what the far end sends."""
    ends = {"a": {"device": "host1", "port": "mlx5_0"}, "z": {"device": "leaf1", "port": "e1"}}
    plan = links().plan(remediation(target={"id": "t", "role": "host-link"} | ends))
    assert len(plan.drain) == 2
    with pytest.raises(Refused, match="t: no gNMI target for host1"):
        links().plan(remediation(target={"id": "t", "role": "fabric-link"} | ends))
    with pytest.raises(Refused, match="no gNMI target"):
        links().plan(remediation(target={"id": "device:leaf1", "a": {"device": "leaf1"}}))


def test_a_repair_needs_a_command() -> None:
    """Without one, repairs are tickets for people, and are not accepted."""
    with pytest.raises(Refused, match=r"it is a ticket for people; set links\.repair_command"):
        links().plan(remediation(action="REPAIR_LINK"))
    plan = links(repair_command=("true",)).plan(remediation(action="REPAIR_LINK"))
    assert len(plan.drain) == 4 and len(plan.hold) == 2 and plan.operation is not None


def test_a_journaled_setting_is_found_by_its_address() -> None:
    """A part that is no longer configured refuses."""
    found = links()
    plan = found.plan(remediation(action="RESTORE_LINK"))
    parts = Parts([found])
    for setting in (*plan.drain, *plan.hold):
        assert parts.at(setting.address) == setting
    with pytest.raises(Refused, match=r"\[slurm\] is not configured any more"):
        parts.at("slurm:h1")
    with pytest.raises(Refused, match="leaf9 is not among the gNMI targets any more"):
        parts.at("gnmi:leaf9:/interfaces/interface[name=e1]/config/enabled")


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        ("DRAIN_LINK", r"\[gnmi\]"), ("RESTORE_LINK", r"\[gnmi\]"),
        ("REPAIR_LINK", r"\[gnmi\] and links.repair_command"),
        ("CORDON_HOST", r"\[slurm\] or \[kubernetes\]"), ("UNCORDON_HOST", r"\[slurm\] or \[kubernetes\]"),
        ("REBOOT_HOST", r"slurm.reboot or \[reboot_host\]"), ("RESET_NIC", r"\[reset_nic\]"),
        ("UPGRADE_FIRMWARE", r"\[upgrade_firmware\]"), ("TUNE_CONGESTION", r"\[tune_congestion\]"),
    ],
)  # fmt: skip
def test_an_action_without_configuration_names_its_setting(action: str, wanted: str) -> None:
    """Of every action that decide publishes."""
    with pytest.raises(Refused, match=f"{action} is not configured: set {wanted}$"):
        Parts([]).plan(remediation(action=action))


def test_every_action_of_the_pipeline_is_carried_out_or_for_people() -> None:
    """A new action has a part, and a setting that its rejection names."""
    assert set(CONFIGURED_BY) == {action.name for action in Action if action} - {"OBSERVE"}
    with pytest.raises(Refused, match="PAINT_RACK is not supported by this automation"):
        Parts([]).plan(remediation(action="PAINT_RACK"))


def test_a_policy_is_put_before_the_others_and_only_it_is_removed() -> None:
    """A policy that a person added meanwhile remains."""
    setting = PolicySetting(GnmiClient({}, Access()), "leaf1", "/x", "DRAIN")
    assert setting.out(["IN"], "r1") == ["DRAIN", "IN"] and setting.out(["DRAIN"], "r1") == ["DRAIN"]
    change = Change(setting.address, "r1", ["IN"], ["DRAIN", "IN"])
    assert setting.back(["DRAIN", "IN"], change) == ["IN"]
    assert setting.back(["NEW", "DRAIN", "IN"], change) == ["NEW", "IN"]
    assert setting.back(["IN"], change) == ["IN"]
    enabled = EnabledSetting(GnmiClient({}, Access()), "leaf1", "/x/enabled")
    assert enabled.back(False, Change("", "r1", True, False)) is True and enabled.is_out(False)


SHOWN = (
    "NodeName=h0 Arch=x86_64 State={state} ThreadsPerCore=1 Partitions=main  BootTime=2026-11-23T01:24:14 "
    "ExtSensorsTemp=n/s Reason={reason} [root@2026-11-23T05:51:26] Comment=a [b]"
)


@pytest.mark.parametrize(
    ("state", "reason", "is_drained", "read"),
    [
        ("IDLE+DRAIN", "railsight r1  repeated flaps", True, "railsight r1 repeated flaps"),
        ("MIXED+DRAIN*", "bad [disk] fan", True, "bad [disk] fan"),
        ("DOWN+DRAIN", "railsight", True, "railsight"),
        ("IDLE", "old", False, ""),
        ("IDLE+NOT_RESPONDING", "x", False, ""),
    ],
)  # fmt: skip
def test_a_node_is_read_from_scontrol(state: str, reason: str, is_drained: bool, read: str) -> None:
    """The reason of a drain; a node that is not drained has none."""
    assert node_state(SHOWN.format(state=state, reason=reason)) == NodeState(is_drained=is_drained, reason=read)


@pytest.mark.parametrize(
    ("state", "is_busy"),
    [
        ("IDLE", False), ("IDLE+DRAIN", False), ("DOWN*", False), ("IDLE+MAINTENANCE+RESERVED", False),
        ("IDLE+DRAIN+MAINTENANCE+RESERVED", False), ("IDLE+RESERVED", True), ("IDLE+PLANNED", True), ("MIXED", True),
        ("ALLOCATED+MAINTENANCE+RESERVED", True), ("IDLE+COMPLETING+MAINTENANCE+RESERVED", True),
    ],
)  # fmt: skip
def test_a_node_in_a_reservation_for_maintenance_is_idle(state: str, is_busy: bool) -> None:
    """It was reserved for the repair; another reservation is for jobs."""
    assert bool(busy_text("h1", f"NodeName=h1 State={state} ")) is is_busy


def test_output_without_a_state_is_an_error() -> None:
    """An unknown node is not a drained one."""
    with pytest.raises(DeviceError, match="no state: Node nope not found"):
        node_state("Node nope not found")


@pytest.mark.parametrize(
    "reason",
    ["fan", "", "railsight", "railsight r1", "railsight r2 flaps", "railsight r1 flaps; disk is broken (anna)"],
)
def test_another_partys_drain_is_refused_and_never_undone(reason: str) -> None:
    """A drain is own if the reason is exactly the journaled one; a person's second mark wins."""
    setting = NodeSetting(SlurmParams(), "h1", "flaps")
    foreign = NodeState(is_drained=True, reason=reason)
    with pytest.raises(Refused, match="node h1 is drained already: "):
        setting.out(foreign, "r1")
    drained = setting.out(NodeState(is_drained=False, reason=""), "r1")
    change = Change(setting.address, "r1", None, drained)
    assert setting.back(foreign, change) == foreign and not setting.is_own(foreign, change)
    assert setting.is_own(drained, change) and not setting.back(drained, change)["is_drained"]
    former = Change(setting.address, "r1", None, {"is_drained": True, "owner": "r1", "reason": ""})
    assert setting.is_own(drained, former), "the journal of an earlier version"


@pytest.mark.parametrize(
    "name", ["ALL", "all", "gpu[001-999]", "h1,h2", "h1 State=DOWN", "h1\n", "-h1", "", "h1=x", "*"]
)
def test_only_the_plain_name_of_one_node_reaches_a_scheduler(name: str) -> None:
    """Slurm expands lists and `ALL`, and a blank begins another argument."""
    made = remediation(action="CORDON_HOST", target={"id": "d", "a": {"device": name}})
    api = cast("Nodes", None)  # a plan reads nothing
    for hosts in (SlurmHosts(SlurmParams()), KubernetesHosts(KubernetesParams(), api)):
        with pytest.raises(Refused, match="is not the plain name of one node"):
            hosts.plan(made)


@pytest.mark.parametrize("more", [{"id": "r1 State=DOWN"}, {"id": ""}, {"id": "x" * 64}, {"state": None}])
def test_a_record_without_a_state_or_with_another_id_is_not_read(more: dict[str, object]) -> None:
    """Before, a record without a state was carried out without the confirmation of `decide`."""
    fields = json.loads(remediation_json()) | more
    data = json.dumps({name: value for name, value in fields.items() if value is not None}).encode()
    with pytest.raises(ValueError, match="not a remediation"):
        decode_remediation(data)


def test_a_bracket_in_the_name_of_a_port_ends_no_key() -> None:
    """A port's name is a value in a path, not a part of it."""
    client = GnmiClient({"leaf1": "127.0.0.1:1", "spine1": "127.0.0.1:1"}, Access())
    port = "e1]/config/name[x=y"
    target = {"id": "link:x", "a": {"device": "leaf1", "port": port}, "z": {"device": "spine1", "port": "e2"}}
    settings = Links(client, LinkParams()).plan(remediation(action="RESTORE_LINK", target=target)).hold
    path = to_path(settings[0].address.split(":", 2)[2])
    assert [elem.name for elem in path.elem] == ["interfaces", "interface", "config", "enabled"]
    assert path.elem[1].key["name"] == port


@pytest.mark.parametrize("exit_status", [0, 1])
async def test_a_node_may_have_another_case_and_no_domain(tmp_path: Path, exit_status: int) -> None:
    """Slurm is asked for each form of the name, and changed by its own."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        '#!/bin/sh\ncase "$*" in "show node -o p1-h1") echo "NodeName=p1-h1 State=IDLE";;\n'
        f'show*) echo "Node $4 not found"; exit {exit_status};; *) echo "$*" >> {tmp_path}/log;; esac\n'
    )
    scontrol.chmod(0o755)
    setting = NodeSetting(SlurmParams(scontrol=str(scontrol)), "P1-H1.dc.example.net", "x")
    assert not (await setting.read())["is_drained"]
    await setting.write(setting.out(NodeState(is_drained=False, reason=""), "r1"))
    assert (tmp_path / "log").read_text() == "update NodeName=p1-h1 State=DRAIN Reason=railsight r1 x\n"
    with pytest.raises(DeviceError, match=r"node p9 not found; name it in slurm\.nodes"):
        await NodeSetting(SlurmParams(scontrol=str(scontrol)), "p9").read()


def test_a_host_has_a_node() -> None:
    """By its name, or the configured one; a quote cannot end the reason."""
    made = remediation(action="CORDON_HOST", target={"id": "d", "a": {"device": "host1"}}, reason='a "b" [c]\n')
    plan = SlurmHosts(SlurmParams(nodes={"host1": "h1"})).plan(made)
    assert plan.drain == (NodeSetting(SlurmParams(nodes={"host1": "h1"}), "h1", "a b c"),)
    with pytest.raises(Refused, match="d has no device"):
        SlurmHosts(SlurmParams()).plan(remediation(target={"id": "d"}))


def test_the_example_is_a_configuration() -> None:
    """Each of its settings is known, and has its type."""
    config = load(PACKAGE.parent / "automation.toml")
    assert config.actor and config.gnmi is not None and config.slurm is None


def test_every_setting_of_the_example_is_one(tmp_path: Path) -> None:
    """Also those that are comments; of the two schedulers each alone."""
    lines = (PACKAGE.parent / "automation.toml").read_text().splitlines()
    settings = [re.sub(r"^# (?=\[|\"|[a-z_]+ = )", "", line) for line in lines]
    text = "\n".join(settings).replace("tls = true, ca, cert", "# tls = true, ca, cert")
    text = re.sub(r"\[kubernetes\]\nkubeconfig = .*", "", text).replace("reboot = true\n", "")
    path = tmp_path / "automation.toml"
    path.write_text(text)
    config = load(path)
    assert config.slurm is not None and config.slurm.nodes == {"pod1-host1": "h1"} and config.signing_key
    assert set(config.commands) == {"REBOOT_HOST", "RESET_NIC", "UPGRADE_FIRMWARE", "TUNE_CONGESTION"}


def test_every_error_of_a_configuration_is_reported_at_once(tmp_path: Path) -> None:
    """With the name of each setting."""
    path = tmp_path / "automation.toml"
    path.write_text(
        'journal = 5\nother = 1\n[kafka]\nbotstrap = "x"\n[links]\nidle_s = -1\nrepair_command = "x"\n'
        "[links.neighbors.leaf1]\ne1 = 5\n[gnmi]\ntls = 1\n"
    )
    with pytest.raises(Misconfigured) as refused:
        load(path)
    for name in (
        "journal: unknown", "other: unknown", "kafka.botstrap: unknown", "links.idle_s: -1 is of", "actor: is required",
        "links.repair_command: 'x' is of", "links.neighbors: {'leaf1': {'e1': 5}} is of", "gnmi.tls: 1 is of",
    ):  # fmt: skip
        assert name in str(refused.value)
    path.write_text('actor = "a"')
    with pytest.raises(Misconfigured, match=r"neither \[gnmi\] nor \[slurm\] nor \[kubernetes\] nor a command"):
        load(path)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ('ca = "ca.pem"', "need kafka.tls = true"),
        ('tls = true\ncert = "cert.pem"', "kafka.cert and kafka.key need each other"),
        ('username = "u"', "kafka.username and kafka.password_file need each other"),
        ('mechanism = "SCRAM"', "kafka.mechanism: 'SCRAM' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        (
            'bootstrap = "localhost:1,kafka:9092,::1:9092"\nusername = "u"\npassword_file = "p"',
            "can read the login at kafka:9092, ::1:9092; set kafka.tls = true",
        ),
    ],
)
def test_an_identity_for_kafka_is_whole_and_encrypted(section: str, problem: str, tmp_path: Path) -> None:
    """Files without TLS, half a login, and a login that others on the network could read are refused."""
    path = tmp_path / "automation.toml"
    path.write_text(f'actor = "a"\n[gnmi]\n[kafka]\n{section}\n')
    with pytest.raises(Misconfigured) as refused:
        load(path)
    assert str(refused.value).endswith(problem) and ";" not in str(refused.value).removesuffix(problem)


def test_a_login_on_loopback_needs_no_tls(tmp_path: Path) -> None:
    """Nor does a login with TLS need loopback; a missing file of TLS is one error that names it."""
    path = tmp_path / "automation.toml"
    login = 'username = "u"\npassword_file = "p"\n'
    (tmp_path / "p").write_text("s3cret\n")
    path.write_text(f'actor = "a"\n[gnmi]\n[kafka]\nbootstrap = "127.0.0.1:1,[::1]:2,localhost:3"\n{login}')
    assert client_options(load(path).kafka, tmp_path)["security_protocol"] == "SASL_PLAINTEXT"
    path.write_text(f'actor = "a"\n[gnmi]\n[kafka]\nbootstrap = "kafka:1"\ntls = true\n{login}')
    options = client_options(load(path).kafka, tmp_path)
    assert (options["security_protocol"], options["sasl_plain_password"]) == ("SASL_SSL", "s3cret")
    with pytest.raises(Misconfigured, match=r"no\.pem .*check ca, cert and key"):
        client_options(KafkaParams(tls=True, ca="no.pem"), tmp_path)
    token = 'mechanism = "OAUTHBEARER"\ntoken_file = "t"\n'
    path.write_text(f'actor = "a"\n[gnmi]\n[kafka]\nbootstrap = "kafka:1"\ntls = true\n{token}')
    assert client_options(load(path).kafka, tmp_path)["sasl_mechanism"] == "OAUTHBEARER"
    path.write_text(f'actor = "a"\n[gnmi]\n[kafka]\nbootstrap = "kafka:1"\n{token}')
    with pytest.raises(Misconfigured, match=r"needs TLS"):
        load(path)


def test_two_schedulers_are_refused(tmp_path: Path) -> None:
    """A host would be cordoned in one of them only."""
    path = tmp_path / "automation.toml"
    path.write_text('actor = "a"\n[slurm]\n[kubernetes]\n')
    with pytest.raises(Misconfigured, match="are both there"):
        load(path)


def test_a_wrong_file_of_targets_is_one_line(tmp_path: Path) -> None:
    """The file that the collector reads as well."""
    (tmp_path / "automation.toml").write_text('actor = "a"\n[gnmi]\ntargets = "targets.json"\npassword_file = "no"\n')
    gnmi = load(tmp_path / "automation.toml").gnmi
    assert gnmi is not None
    with pytest.raises(Misconfigured, match=r"gnmi.targets: .*targets.json"):
        gnmi.addresses(tmp_path)
    with pytest.raises(Misconfigured, match="no: No such file"):
        gnmi.access(tmp_path)
    (tmp_path / "targets.json").write_text(json.dumps([{"name": "leaf1", "address": "127.0.0.1:5"}]))
    assert gnmi.addresses(tmp_path) == {"leaf1": "127.0.0.1:5"}


def test_a_path_has_escaped_keys() -> None:
    """A bracket in a key is escaped."""
    path = to_path(r"/interfaces/interface[name=a\]b]/config")
    assert [step.name for step in path.elem] == ["interfaces", "interface", "config"]
    assert path.elem[1].key["name"] == "a]b"
    with pytest.raises(ValueError, match="not a gNMI path"):
        to_path("interfaces")
