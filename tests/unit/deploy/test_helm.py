"""The rendered objects of the Helm chart: parts that railsight has, with probes, bounds and rights."""

import json
from pathlib import Path
from typing import Any

import pytest
from railsight_automation.config import load as load_automation

from deploy.helm.__main__ import EXAMPLES, RENDERED, digest, objects
from streams.cli.commands import commands
from streams.cli.options import collector_access, collector_params, spec_of
from streams.config.settings import load
from streams.runtime.acl import accesses
from streams.wire.topics import STAGES

Object = dict[str, Any]
NAMES = sorted(path.name for path in EXAMPLES.glob("*.yaml"))
FULL = list(objects((RENDERED / "full.yaml").read_text("utf-8")))
ON_HOSTS = ("nic", "host", "probe")
KINDS = ("gnmi", "snmp", "bridge", "jobs", "dialout", "syslog", "otlp", *ON_HOSTS)
"""The collectors of the chart."""
WORKLOADS = [one for one in FULL if one["kind"] in ("Deployment", "DaemonSet", "StatefulSet", "Job")]


def name_of(one: Object) -> str:
    return f"{one['kind']}-{one['metadata']['name']}"


def pod_of(workload: Object) -> Object:
    return dict(workload["spec"]["template"]["spec"])


def container_of(workload: Object) -> Object:
    (container,) = pod_of(workload)["containers"]
    return dict(container)


def part_of(workload: Object) -> str:
    return str(workload["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"])


def data_of(name: str, key: str) -> str:
    (found,) = (one for one in FULL if one["kind"] == "ConfigMap" and one["metadata"]["name"] == name)
    return str(found["data"][key])


@pytest.mark.parametrize("name", NAMES)
def test_the_rendered_objects_are_those_of_the_chart(name: str) -> None:
    """A change of the chart needs `make chart`, which renders it with Helm and checks it with kubeconform."""
    assert (RENDERED / name).read_text("utf-8").partition("\n")[0].endswith(digest())


def test_every_part_is_there() -> None:
    """Stages, sink, notifier, tickets, collectors, the automation, and what is done once."""
    assert {part_of(one) for one in WORKLOADS} == {
        *STAGES, "persist", "notify", "tickets", "locality", "automation", "topics", "acls", "migrations",
        *(f"collect-{kind}" for kind in KINDS),
    }  # fmt: skip
    assert {part_of(one) for one in WORKLOADS if one["kind"] == "DaemonSet"} == {f"collect-{kind}" for kind in ON_HOSTS}


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_a_workload_runs_a_command_that_exists(workload: Object) -> None:
    """The command is one of railsight's, a stage one of its stages, a collector one that is installed."""
    arguments = container_of(workload)["args"]
    if part_of(workload) == "automation":
        assert arguments == ["--config", "/etc/railsight/automation.toml"]
        return
    assert arguments[0] in {command.name for command in commands()}
    known = {"process": STAGES, "collect": collector_params(), "acl": ("apply",)}.get(arguments[0])
    assert known is None or arguments[1] in known


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_a_workload_is_bounded_and_has_no_rights(workload: Object) -> None:
    """Requests and limits; a read-only root; no capability and not root, except the host collector where wished."""
    container, pod = container_of(workload), pod_of(workload)
    assert set(container["resources"]) == {"requests", "limits"}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    if part_of(workload) == "collect-host":  # the values of this example ask for it
        assert container["securityContext"]["privileged"] is True
        return
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is (part_of(workload) in ("automation", "collect-jobs"))


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_a_part_that_serves_health_is_probed(workload: Object) -> None:
    """By the endpoints of every part, on the port that its command or configuration opens."""
    container = container_of(workload)
    if workload["kind"] == "Job":
        assert "livenessProbe" not in container
        return
    assert container["livenessProbe"]["httpGet"] == container["startupProbe"]["httpGet"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    port, *others = container["ports"]
    served = {
        "locality": ["https"], "collect-dialout": ["devices"], "collect-syslog": ["udp", "tcp", "tls"],
        "collect-otlp": ["grpc", "http"],
    }  # fmt: skip
    assert [one["name"] for one in others] == served.get(part_of(workload), [])
    arguments = container["args"]
    opened = int(arguments[arguments.index("--metrics-port") + 1]) if "--metrics-port" in arguments else 9100
    assert port == {"name": "metrics", "containerPort": opened}


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_every_mount_has_a_volume_and_every_volume_a_mount(workload: Object) -> None:
    """A Secret is mounted by a key, except those of devices and of the automation, whose files the settings name."""
    pod, claims = pod_of(workload), workload["spec"].get("volumeClaimTemplates", [])
    volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claims}
    assert volumes == {mount["name"] for mount in container_of(workload)["volumeMounts"]}


def test_a_pod_has_the_login_of_its_own_part_only() -> None:
    """Each is a part that logs in to Kafka; jobs log in as admin."""
    settings = load(None, environ={})
    parts = accesses(settings, collector_access(settings))
    for workload in WORKLOADS:
        (login,) = (volume for volume in pod_of(workload)["volumes"] if volume["name"] == "kafka")
        (item,) = login["secret"]["items"]
        assert item["key"] == item["path"] and item["key"] in parts
        part = part_of(workload)
        collector = part.removeprefix("collect-")
        own = spec_of(collector).part if collector != part else part
        assert item["key"] == ("admin" if workload["kind"] == "Job" else own)


def test_only_those_that_verify_have_the_secret_and_a_collector_has_its_own_key() -> None:
    """By the paths of the configuration; a host's key file is one of the host, because all pods have one Secret."""
    mounted = {}
    for workload in WORKLOADS:
        for volume in pod_of(workload)["volumes"]:
            if volume["name"] == "identity":
                (path,) = (m["mountPath"] for m in container_of(workload)["volumeMounts"] if m["name"] == "identity")
                (item,) = volume["secret"]["items"] if "secret" in volume else [{"key": volume["hostPath"]["path"]}]
                mounted[part_of(workload)] = item["key"], "/".join(filter(None, (path, item.get("path"))))
    folder = "/etc/railsight/identity"
    collectors = {kind: kind for kind in ("gnmi", "snmp", "bridge", "dialout", "syslog", "otlp")}
    collectors |= dict.fromkeys(ON_HOSTS, "/etc/railsight/identity.key")
    assert mounted == dict.fromkeys(("measure", "decide", "persist"), ("secret", f"{folder}/secret")) | {
        f"collect-{kind}": (key, f"{folder}/key") for kind, key in collectors.items()
    }
    for name, path in (("secret_file", "secret"), ("key_file", "key")):
        assert f'{name} = "{folder}/{path}"' in data_of("railsight", "railsight.toml")


def test_only_those_that_use_clickhouse_have_a_password_of_it() -> None:
    """And each of them that of its own user."""
    found = {}
    for workload in WORKLOADS:
        for volume in pod_of(workload)["volumes"]:
            if volume["name"] == "clickhouse":
                found[part_of(workload)] = volume["secret"]["items"][0]["key"]
    assert found == {"persist": "railsight_sink", "migrations": "railsight_migrator", "locality": "railsight_reader"}


@pytest.mark.parametrize(
    "part",
    [
        "persist",
        "migrations",
        "measure",
        "locality",
        "collect-jobs",
        "collect-nic",
        "collect-dialout",
        "collect-syslog",
        "collect-otlp",
        "collect-probe",
    ],
)
def test_the_configuration_is_one_that_railsight_reads(part: str, tmp_path: Path) -> None:
    """With the environment of the part's container; no secret is in it."""
    (workload,) = (one for one in WORKLOADS if part_of(one) == part)
    path = tmp_path / "railsight.toml"
    path.write_text(data_of("railsight", "railsight.toml"))
    environ = {one["name"]: one.get("value", "node-1") for one in container_of(workload)["env"]}
    settings = load(path, collector_params(), environ)
    assert set(settings.collectors) == set(KINDS)
    assert (settings.kafka.telemetry_partitions, settings.runtime.metrics_port) == (8, 9100)
    assert (settings.locality.host, settings.locality.port) == ("0.0.0.0", 8790)
    assert settings.decide.mode == "act" and settings.tickets is not None
    assert json.loads(data_of("railsight-targets", "gnmi.json")) == [{"name": "leaf1", "address": "192.0.2.1:57400"}]


def test_the_locality_service_has_the_files_that_its_settings_name(tmp_path: Path) -> None:
    """The token and the certificate are mounted where the service reads them."""
    (workload,) = (one for one in WORKLOADS if part_of(one) == "locality")
    path = tmp_path / "railsight.toml"
    path.write_text(data_of("railsight", "railsight.toml"))
    params = load(path, collector_params(), {}).locality
    folders = {mount["mountPath"] for mount in container_of(workload)["volumeMounts"]}
    for file in (params.token_file, params.cert_file, params.key_file):
        assert file is not None and str(file.parent) in folders
    (api,) = (one["spec"] for one in FULL if one["metadata"]["name"] == "railsight-locality-api")
    assert {"name": "https", "containerPort": params.port} in container_of(workload)["ports"]
    assert api["ports"] == [{"name": "https", "port": params.port, "targetPort": "https"}]


def test_the_automations_configuration_is_one_that_it_reads(tmp_path: Path) -> None:
    """Its journal is on the claimed volume, and its signatures name the fabric of the pipeline."""
    path, pipeline = tmp_path / "automation.toml", tmp_path / "railsight.toml"
    path.write_text(data_of("railsight-automation", "automation.toml"))
    pipeline.write_text(data_of("railsight", "railsight.toml"))
    config = load_automation(path)
    assert config.kubernetes is not None
    assert config.fabric == load(pipeline, collector_params(), {}).kafka.cluster == "dc1"
    assert str(config.journal).startswith("/var/lib/railsight-automation/")


def test_a_rollout_never_has_more_workers_than_partitions() -> None:
    """No surge; one pod at a time."""
    for workload in WORKLOADS:
        if workload["kind"] == "Deployment":
            assert workload["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_every_deployment_has_a_service_a_budget_and_a_monitor() -> None:
    """Their selectors choose the pods of one part; a DaemonSet and a part with one pod have no budget."""
    for kind in ("Service", "ServiceMonitor", "PodDisruptionBudget"):
        chosen = set()
        for one in FULL:
            if one["kind"] == kind:
                selector = one["spec"]["selector"]
                chosen.add(selector.get("matchLabels", selector)["app.kubernetes.io/component"])
        kinds = ("Deployment",) if kind == "PodDisruptionBudget" else ("Deployment", "DaemonSet", "StatefulSet")
        assert chosen == {part_of(one) for one in WORKLOADS if one["kind"] in kinds}, kind


def test_network_policies_cover_every_part_and_name_parts_that_exist() -> None:
    """The base policy chooses all pods of the release; others add destinations to parts."""
    policies = [one["spec"] for one in FULL if one["kind"] == "NetworkPolicy"]
    base = [spec for spec in policies if set(spec["policyTypes"]) == {"Ingress", "Egress"}]
    (selector,) = (spec["podSelector"]["matchLabels"] for spec in base)
    assert "app.kubernetes.io/component" not in selector
    parts = {part_of(one) for one in WORKLOADS}
    for spec in policies:
        for expression in spec["podSelector"].get("matchExpressions", []):
            assert set(expression["values"]) <= parts


def test_autoscaling_asks_for_a_metric_that_exists() -> None:
    """At most as many workers as partitions by default."""
    (scaled,) = (one["spec"] for one in FULL if one["kind"] == "ScaledObject")
    assert scaled["scaleTargetRef"]["name"] == "railsight-measure"
    assert scaled["triggers"][0]["metadata"]["query"].startswith('sum(railsight_lag_records{stage="measure"')
    assert scaled["maxReplicaCount"] <= 8
