"""deploy/compose: valid, closed to the outside, bounded, and made of parts that exist."""

import hashlib
import json
import os
import re
import socket
import stat
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from pydantic import ValidationError
from railsight_automation.config import load as load_automation

from collectors.core.params import CollectorParams
from streams.cli.commands import commands
from streams.cli.options import collector_access, collector_params, installed_collectors, spec_of
from streams.config.settings import load
from streams.locality.params import LocalityParams
from streams.runtime.acl import accesses
from streams.wire.identity import read_keys, read_secrets
from streams.wire.topics import STAGES

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy/compose"
SCHEMA = resources.files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
ON_HOST = {"collect-nic", "collect-host", "collect-probe"}
COLLECTORS = {
    "collect-gnmi",
    "collect-dialout",
    "collect-otlp",
    "collect-snmp",
    "collect-bridge",
    "collect-nccl_tests",
    "collect-syslog",
    "collect-ib",
    *ON_HOST,
}
SERVING = {*STAGES, *COLLECTORS, "persist", "notify", "tickets", "collect-jobs", "locality"}
OURS = SERVING | {"topics", "acl", "migrate", "inventory"}
AUTOMATION = "automation"
IDENTITIES = {"identity_collector": "collector/*", "identity_bridge": "bridge/*", "identity_host": "host/{}"}
IDENTITY = {"identity_secret", *IDENTITIES}
SETTINGS = load(FOLDER / "railsight.toml", environ={})
# They have no health port; they exit on failure and are restarted.
WITHOUT_HEALTHCHECK = {*OURS, AUTOMATION} - SERVING


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """Return the file with its anchors put in place."""
    return dict(yaml.safe_load((FOLDER / "compose.yaml").read_text()))


def test_the_file_is_valid_against_the_compose_specification(project: dict[str, Any]) -> None:
    """The specification's own schema finds nothing wrong, and would find a wrong key."""
    schema = json.loads(SCHEMA.read_text())
    validator = Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(project)] == []
    wrong = project | {"services": {"kafka": project["services"]["kafka"] | {"helthcheck": {}}}}
    assert list(validator.iter_errors(wrong))


def test_every_part_is_there(project: dict[str, Any]) -> None:
    """The servers, each stage, the sink, the notifier, a collector, and what is done once."""
    assert set(project["services"]) == OURS | {
        AUTOMATION, "kafka", "clickhouse", "grafana", "alertmanager", "prometheus",
    }  # fmt: skip


def test_nothing_is_open_to_the_outside(project: dict[str, Any]) -> None:
    """Every published port is on loopback, and the stages' network has no way out."""
    ports = [port for service in project["services"].values() for port in service.get("ports", [])]
    assert ports and all(re.match(r"(\$\{[A-Z]+_ADDRESS:-)?127\.0\.0\.1\}?:", port) for port in ports)
    internal = {name for name, network in project["networks"].items() if network == {"internal": True}}
    assert internal == {"pipeline", "store", "alerts"}
    outside = {name for name in OURS - ON_HOST if set(project["services"][name]["networks"]) - internal}
    assert outside == {
        "collect-gnmi",
        "collect-dialout",
        "collect-otlp",
        "collect-snmp",
        "collect-syslog",
        "collect-ib",
        "collect-jobs",
        "locality",
        "tickets",
    }
    assert {name for name, one in project["services"].items() if "network_mode" in one} == ON_HOST


def test_only_those_that_use_a_server_share_a_network_with_it(project: dict[str, Any]) -> None:
    """ClickHouse is reached by the sink, the migrations and Grafana; Alertmanager by the notifier and Prometheus."""
    services = {name: set(service.get("networks", ())) - {"board"} for name, service in project["services"].items()}

    def neighbors(server: str) -> set[str]:
        return {name for name, networks in services.items() if networks & services[server]} - {server}

    assert neighbors("clickhouse") == {"persist", "migrate"}
    assert neighbors("alertmanager") == {"notify", "prometheus"}
    assert set(project["services"]["grafana"]["networks"]) == {"board"}


def test_a_published_port_is_on_a_network_that_publishes(project: dict[str, Any]) -> None:
    """An internal network alone would publish nothing, without a word."""
    for name, service in project["services"].items():
        assert not service.get("ports") or set(service["networks"]) - {"pipeline", "store", "alerts"}, name


def test_nothing_runs_as_root_or_may_become_it(project: dict[str, Any]) -> None:
    """Each has a numeric user that is not 0, no capability, and cannot gain any."""
    for name, service in project["services"].items():
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"]), name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        assert service["read_only"] is True, name


def test_everything_is_bounded_and_named_by_version(project: dict[str, Any]) -> None:
    """CPU, memory and processes have limits; no image is whatever is newest today."""
    for name, service in project["services"].items():
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}, name
        tag = service["image"].rstrip("}").rpartition(":")[2]
        assert re.match(r"v?\d+\.\d+", tag), name


def test_health_is_checked_where_there_is_something_to_ask(project: dict[str, Any]) -> None:
    """A part without a health check exits on failure."""
    unchecked = {name for name, service in project["services"].items() if "healthcheck" not in service}
    assert unchecked == WITHOUT_HEALTHCHECK
    assert all("restart" in service for service in project["services"].values())


def test_nothing_starts_before_what_it_needs(project: dict[str, Any]) -> None:
    """Every condition can be met: healthy needs a check, completed needs something that ends."""
    for name, service in project["services"].items():
        for other, asked in service.get("depends_on", {}).items():
            needed = project["services"][other]
            if asked["condition"] == "service_healthy":
                assert "healthcheck" in needed, name
            else:
                assert other in ("topics", "acl", "migrate"), name
            assert set(needed.get("profiles", [])) <= set(service.get("profiles", [])), name


def test_parts_of_ours_run_subcommands_that_exist(project: dict[str, Any]) -> None:
    """Each command is one of railsight's, each stage one of its stages."""
    names = {command.name for command in commands()}
    for name in OURS:
        command = project["services"][name]["command"]
        assert command[0] in names, name
        assert command[0] != "process" or command[1] == name


def test_the_configuration_is_one_that_railsight_reads(project: dict[str, Any]) -> None:
    """It names the containers that it is used with, and needs no secret to be read."""
    settings = load(FOLDER / "railsight.toml", environ={})
    addresses = [settings.kafka.bootstrap, settings.store.url, *settings.notify.alertmanagers]
    hosts = {re.sub(r"^https?://", "", address).partition(":")[0] for address in addresses}
    assert hosts == {"kafka", "clickhouse", "alertmanager"} <= set(project["services"])
    assert (settings.runtime.metrics_host, settings.runtime.metrics_port) == ("0.0.0.0", 9100)
    assert settings.store.user == project["services"]["clickhouse"]["environment"]["CLICKHOUSE_USER"]


def test_a_collector_keeps_what_it_read_while_kafka_is_away(project: dict[str, Any]) -> None:
    """Its spool is on a volume, which its user may write to, and goes by a name that outlives the container."""
    params = load(FOLDER / "railsight.toml", collector_params(), environ={}).collectors["gnmi"]
    assert isinstance(params, CollectorParams)
    spool = str(params.publisher.spool)
    service = project["services"]["collect-gnmi"]
    assert f"spool:{spool}" in service["volumes"] and "spool" in project["volumes"]
    assert f"--owner=10001 --group=10001 {spool}" in (FOLDER / "Dockerfile").read_text()
    assert "--name" in service["command"]


def test_the_automation_has_a_configuration_and_a_journal_that_outlives_it(project: dict[str, Any]) -> None:
    """It uses the containers of this file, and its user may write to the volume of its journal."""
    config = load_automation(FOLDER / "automation.toml")
    assert config.kafka.bootstrap.partition(":")[0] in project["services"]
    assert config.fabric == SETTINGS.kafka.cluster
    service = project["services"][AUTOMATION]
    folder = str(Path(config.journal).parent)
    assert f"automation:{folder}" in service["volumes"] and "automation" in project["volumes"]
    dockerfile = (ROOT / "deploy/automation/Dockerfile").read_text()
    assert f"--owner=10001 --group=10001 {folder}" in dockerfile and service["user"] == "10001:10001"
    assert config.gnmi is not None and config.gnmi.addresses(FOLDER) == {}
    assert service["command"] == ["--config", "/etc/railsight/automation.toml"]


def test_only_who_asks_clickhouse_has_its_password(project: dict[str, Any], tmp_path: Path) -> None:
    """The sink and the migrations get the file from the environment, and read it."""
    services = {name: project["services"][name] for name in OURS}
    assert {name for name, service in services.items() if "clickhouse_password" in service.get("secrets", [])} == {
        "migrate", "persist",
    }  # fmt: skip
    assert services["migrate"]["environment"] == services["persist"]["environment"]
    ((variable, place),) = services["persist"]["environment"].items()
    assert place == "/run/secrets/clickhouse_password"
    (tmp_path / "secret").write_text("from the file\n")
    settings = load(FOLDER / "railsight.toml", environ={variable: str(tmp_path / "secret")})
    assert settings.store.secret() == "from the file"


def login_of(project: dict[str, Any], name: str) -> set[str]:
    """Return the parts of railsight whose passwords a service has."""
    own = sources(project["services"][name])
    return {secret.removeprefix("kafka_") for secret in own if secret in LOGINS}


LOGINS = {f"kafka_{part}" for part in accesses(SETTINGS, collector_access(SETTINGS))}


def login_problems(project: dict[str, Any]) -> list[str]:
    """Return each service with another login than its own, or with a file where its settings do not look for it."""
    own = {
        **{name: name for name in (*STAGES, "persist", "notify", "tickets", "locality", "automation")},
        "topics": "admin", "acl": "admin", "inventory": "operator",
        **{f"collect-{kind}": spec_of(kind).part for kind in installed_collectors()},
    }  # fmt: skip
    problems = []
    for name, service in project["services"].items():
        expected = own.get(name)
        if login_of(project, name) != ({expected} if expected else set()):
            problems.append(f"{name} has the logins {sorted(login_of(project, name))}")
        elif expected and name != AUTOMATION:
            wanted = {
                f"kafka_{expected}": str(SETTINGS.kafka.of_part(expected).password_file),
                "kafka_ca": str(SETTINGS.kafka.ca_file),
            }
            found = sources(service)
            problems += [
                f"{name}: {secret} at {found.get(secret)}" for secret in wanted if found.get(secret) != wanted[secret]
            ]
    return problems


def test_each_part_has_the_login_of_its_own_and_no_other(project: dict[str, Any]) -> None:
    """The file is where its settings look for it; the part is one to which `railsight acl` gives rights."""
    assert login_problems(project) == []


@pytest.mark.parametrize(
    ("service", "secrets", "problem"),
    [
        ("persist", ["kafka_ca", "kafka_admin"], "persist has the logins ['admin']"),
        ("notify", ["kafka_ca"], "notify has the logins []"),
        ("measure", ["kafka_ca", "kafka_measure"], "measure: kafka_measure at /run/secrets/kafka_measure"),
        ("grafana", ["kafka_reader", "kafka_operator"], "grafana has the logins ['operator', 'reader']"),
    ],
)
def test_a_wrong_login_would_be_found(project: dict[str, Any], service: str, secrets: list[str], problem: str) -> None:
    """The password of another part, none, one at another path, one too many."""
    services = project["services"] | {service: project["services"][service] | {"secrets": secrets}}
    assert problem in login_problems(project | {"services": services})


def test_kafka_accepts_only_tls_with_a_login(project: dict[str, Any]) -> None:
    """No listener is plain text; the controller is on loopback; the users are those of the parts."""
    environment = project["services"]["kafka"]["environment"]
    assert "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP" not in environment
    assert "CONTROLLER://127.0.0.1:" in environment["KAFKA_LISTENERS"]
    text = (FOLDER / "secrets.sh").read_text()
    assert "INTERNAL:SASL_SSL,HOST:SASL_SSL,CONTROLLER:SASL_PLAINTEXT" in text and "PLAINTEXT:" not in text
    assert "allow.everyone.if.no.acl.found=false" in text
    (parts,) = re.findall(r'^parts="(.*)"$', text, re.MULTILINE)
    assert {f"kafka_{part}" for part in parts.split()} <= LOGINS
    used = {part for name in project["services"] for part in login_of(project, name)}
    assert used == set(parts.split()) - {"reader"}


def test_every_collector_has_a_profile(project: dict[str, Any]) -> None:
    """Those of a fabric with switches and hosts; the simulation is none of production."""
    kinds = installed_collectors().keys() - {"sim"}
    for kind in kinds:
        assert project["services"][f"collect-{kind}"]["profiles"] == [kind]
    assert {f"collect-{kind}" for kind in kinds} == COLLECTORS | {"collect-jobs"}


def test_the_locality_listens_off_loopback_with_a_certificate_and_a_token(project: dict[str, Any]) -> None:
    """Its settings and its option are accepted together, and refused without the certificate."""
    service = project["services"]["locality"]
    settings = load(FOLDER / "railsight.toml", environ=service["environment"]).locality
    host = service["command"][service["command"].index("--host") + 1]
    with_host = LocalityParams.model_validate(settings.model_dump() | {"host": host})
    assert {str(with_host.token_file), str(with_host.cert_file)} <= set(sources(service).values())
    assert service["ports"] == [f"127.0.0.1:{with_host.port}:{with_host.port}"]
    with pytest.raises(ValidationError, match="cert_file"):
        LocalityParams.model_validate({**settings.model_dump(), "host": host, "cert_file": None})


def test_the_jobs_collector_has_the_scheduler_of_its_secret(project: dict[str, Any]) -> None:
    """The environment gives it the section that it needs, and the kubeconfig is the secret's file."""
    service = project["services"]["collect-jobs"]
    params = load(FOLDER / "railsight.toml", collector_params(), environ=service["environment"]).collectors["jobs"]
    (scheduler,) = params.schedulers()  # type: ignore[attr-defined]
    assert scheduler.kubeconfig in sources(service).values()
    assert service["command"][-4:] == ["--metrics-port", "9100", "--metrics-host", "0.0.0.0"]


@pytest.mark.parametrize(
    ("kind", "paths"),
    [
        *((kind, ["targets_file", "cert_file", "key_file", "client_ca_file"]) for kind in ("dialout", "otlp")),
        ("probe", ["inventory"]),
        ("nccl_tests", ["outputs"]),
        ("syslog", ["targets_file"]),
        ("ib", ["inventory"]),
    ],
)
def test_a_collector_has_the_section_that_it_needs(project: dict[str, Any], kind: str, paths: list[str]) -> None:
    """From its environment, and each file or folder that it names is a secret or a volume of the service."""
    service = project["services"][f"collect-{kind}"]
    params = load(FOLDER / "railsight.toml", collector_params(), environ=service["environment"]).collectors[kind]
    assert params.model_fields_set >= set(paths)
    mounted = {*sources(service).values(), *(volume.rsplit(":", 2)[1] for volume in service["volumes"])}
    values = [getattr(params, path) for path in paths]
    named = [Path(str(each)) for value in values for each in (value if isinstance(value, tuple) else [value])]
    assert [path for path in named if not {str(path), str(path.parent)} & mounted] == []


def test_every_file_that_is_mounted_exists(project: dict[str, Any]) -> None:
    """A path that is not there would become an empty folder of root's."""
    for name, service in project["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (FOLDER / source).exists(), name
            elif not source.startswith("$"):
                assert source in project["volumes"], name


def test_secrets_are_files_and_no_password_is_in_the_project(project: dict[str, Any]) -> None:
    """No environment holds one."""
    assert {secret["file"].rpartition("/")[0] for secret in project["secrets"].values()} == {"./secrets"}
    for service in project["services"].values():
        for variable, value in service.get("environment", {}).items():
            assert "PASSWORD" not in variable or str(value).startswith("/run/secrets/"), variable
        assert set(sources(service)) <= set(project["secrets"])


def sources(service: dict[str, Any]) -> dict[str, str]:
    """Return the path in the container of each secret that a service has."""
    found = (one if isinstance(one, dict) else {"source": one} for one in service.get("secrets", []))
    return {one["source"]: one.get("target", f"/run/secrets/{one['source']}") for one in found}


def test_secrets_are_made_once_and_are_no_bodys_business(project: dict[str, Any], tmp_path: Path) -> None:
    """Different passwords in a folder that only its owner enters; a second run changes none."""
    script = tmp_path / "secrets.sh"
    script.write_text((FOLDER / "secrets.sh").read_text())
    script.chmod(0o755)
    folder = tmp_path / "secrets"
    subprocess.run([script], check=True, capture_output=True, timeout=20)
    made = {path.name: path.read_text() for path in folder.iterdir()}
    # The token of the ticket system is one that it has issued.
    given = {"ticket_token", "snmp_community", "kubeconfig", "locality_pem", "dialout_pem", "dialout_ca"}
    # The brokers' own password and that of the reader are in files of theirs, and in those of Kafka.
    assert set(made) == (set(project["secrets"]) - given) | {"kafka_broker", "kafka_reader"}
    composed = {"kafka_properties", "kafka_keystore", "kafka_ca", "kafka_health"}
    passwords = {name: value for name, value in made.items() if name not in composed | IDENTITY}
    assert len(set(passwords.values())) == len(passwords)
    assert all(re.fullmatch(r"[0-9a-f]{48}", value) for value in passwords.values())
    (secret,) = read_secrets(folder / "identity_secret")
    for name, principal in IDENTITIES.items():
        assert read_keys(folder / name) == (secret.key_of(principal.format(socket.gethostname())),)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    subprocess.run([script], check=True, capture_output=True, timeout=20)
    assert {path.name: path.read_text() for path in folder.iterdir()} == made


def test_each_part_has_its_own_identity(project: dict[str, Any]) -> None:
    """The secret is for those that verify; a collector of telemetry has one key, and the configuration their paths."""
    own = SETTINGS.identity
    assert own.mode == "require" and str(own.secret_file) == "/run/secrets/identity_secret"
    found = {name: IDENTITY & set(sources(service)) for name, service in project["services"].items()}
    assert {name for name, has in found.items() if has == {"identity_secret"}} == {"measure", "decide", "persist"}
    kinds = {"bridge": "identity_bridge"} | dict.fromkeys(("nic", "host", "probe"), "identity_host")
    for name in COLLECTORS:
        key = kinds.get(name.removeprefix("collect-"), "identity_collector")
        assert found.pop(name) == {key} and sources(project["services"][name])[key] == str(own.key_file)
    assert {name for name, has in found.items() if has} == {"measure", "decide", "persist"}


def test_secrets_are_retained_out_of_the_repository() -> None:
    """Git sees nothing in the folder but what keeps it there."""
    assert (FOLDER / "secrets/.gitignore").read_text().splitlines() == ["*", "!.gitignore"]


def test_the_reader_is_made_with_the_password_of_the_secret(tmp_path: Path) -> None:
    """ClickHouse gets the digest of Grafana's password, never the password, and the reader may only read."""
    (tmp_path / "clickhouse_reader_password").write_text("hunter2\n")
    (tmp_path / "clickhouse_password").write_text("x\n")
    client = tmp_path / "clickhouse-client"
    client.write_text(f"#!/bin/sh\ncat >{tmp_path}/sql\n")
    client.chmod(0o755)
    script = tmp_path / "reader.sh"
    script.write_text((FOLDER / "reader.sh").read_text().replace("/run/secrets", str(tmp_path)))
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["bash", script], check=True, env={**os.environ, "PATH": path}, timeout=20)
    result = (tmp_path / "sql").read_text()
    assert hashlib.sha256(b"hunter2").hexdigest() in result and "hunter2" not in result
    assert "readonly = 2" in result and re.findall(r"GRANT (.*?) TO", result) == ["SELECT ON railsight.*"]


def test_prometheus_scrapes_every_part_where_it_listens(project: dict[str, Any]) -> None:
    """Each target is a service of the project, and a collector serves its metrics to it."""
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    targets = [t for job in config["scrape_configs"] for one in job["static_configs"] for t in one["targets"]]
    collectors = {"collect-gnmi", "collect-jobs"}
    expected = {*STAGES, *collectors, "persist", "notify", "alertmanager", "locality", "tickets", "automation"}
    assert {target.partition(":")[0] for target in targets} == expected <= set(project["services"])
    collector, prometheus = project["services"]["collect-gnmi"], project["services"]["prometheus"]
    assert collector["command"][-4:] == ["--metrics-port", "9100", "--metrics-host", "0.0.0.0"]
    assert set(collector["networks"]) & set(prometheus["networks"])


DIGEST = f"sha256:{'5' * 64}"


@pytest.fixture
def pinned(tmp_path: Path) -> Path:
    """Return the folder of pin.sh, with a docker and a curl of ours in front of the real ones."""
    for name in ("compose.yaml", "grafana.Dockerfile", "pin.sh"):
        (tmp_path / name).write_text((FOLDER / name).read_text())
    (tmp_path / "pin.sh").chmod(0o755)
    programs = {"docker": f"echo $4 >>{tmp_path}/asked; echo {DIGEST}", "curl": 'echo plugin >"$6"'}
    for name, body in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def pin(folder: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run([folder / "pin.sh"], env=environ, capture_output=True, text=True, timeout=20, check=False)


def test_images_are_pinned_by_the_digests_of_their_registry(pinned: Path) -> None:
    """Each image that is not built here, and the plugin's archive; a second run asks for nothing."""
    assert pin(pinned).returncode == 0
    lines = dict(line.split("=", 1) for line in (pinned / ".env").read_text().splitlines())
    assert set(lines) == {
        *(f"{name}_IMAGE" for name in ("KAFKA", "CLICKHOUSE", "ALERTMANAGER", "PROMETHEUS", "GRAFANA")),
        "GRAFANA_PLUGIN_SHA256",
    }
    assert lines["KAFKA_IMAGE"] == f"apache/kafka:4.3.1@{DIGEST}"
    assert lines["GRAFANA_PLUGIN_SHA256"] == hashlib.sha256(b"plugin\n").hexdigest()
    before = (pinned / "asked").read_text()
    assert pin(pinned).returncode == 0
    assert (pinned / "asked").read_text() == before


def test_an_answer_that_is_no_digest_is_refused(pinned: Path) -> None:
    """A registry that answers something else pins nothing."""
    (pinned / "docker").write_text("#!/bin/sh\necho unauthorized\n")
    done = pin(pinned)
    assert done.returncode == 1 and "no digest of" in done.stderr
    assert "IMAGE" not in (pinned / ".env").read_text()


def test_every_image_is_built_here_or_can_be_pinned(project: dict[str, Any]) -> None:
    """Grafana's plugin comes with the image, by its digest, and nothing is installed at a start."""
    for name, service in project["services"].items():
        assert "build" in service or re.fullmatch(r"\$\{[A-Z]+_IMAGE:-[^}]+\}", service["image"]), name
    grafana = project["services"]["grafana"]
    assert grafana["build"]["args"]["PLUGIN_SHA256"].startswith("${GRAFANA_PLUGIN_SHA256:?")
    assert "GF_INSTALL_PLUGINS" not in grafana["environment"]
    assert "sha256sum -c" in (FOLDER / "grafana.Dockerfile").read_text()
