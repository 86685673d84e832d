"""The operator's page: the settings that sites set, by task, and how a configuration is written.

`python -m tests.contract.docs` writes docs/configuration.md; test_reference.py compares both.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from streams.config.loader import PREFIX
from tests.contract.docs.settings_page import Setting, sections, table

PAGE = Path(__file__).parents[3] / "docs/configuration.md"

_HEAD = f"""# Configuration

The settings that sites set, by task. [The reference](settings-reference.md) has every setting. Both pages are generated
from the models that validate the configuration: `make docs` writes them.

One TOML file has the settings of all parts; each part reads its own. `deploy/examples` has examples.

```sh
railsight config check --config railsight.toml
```

- **A setting that is absent has its default.** An unknown setting is refused by name, with the nearest known name. One
  that was a setting in an older version and is a constant now is refused with its value.
- **The environment overrides the file**: `{PREFIX}STORE__URL` is `url` of `[store]`; lists and tables are JSON.
- **A secret** is never in the file. It comes from the environment or from the file that the setting with `_file` names.
- **A collector's settings** can also be given as `railsight collect KIND --set key=value`.

The column *range* has the values that are accepted; a setting without one accepts every value of its type.
"""

TASKS: Mapping[str, tuple[str, ...]] = {
    "Connect to Kafka": (
        "kafka.bootstrap", "kafka.cluster", "kafka.tls", "kafka.ca_file", "kafka.sasl_mechanism", "kafka.username",
        "kafka.password_file", "kafka.login_folder", "kafka.telemetry_partitions", "kafka.pod_partitions",
        "kafka.replication",
    ),
    "Store in ClickHouse, and for how long": (
        "store.url", "store.user", "store.password_file", "store.database", "store.cluster", "store.retention_days",
        "persist.rollups",
    ),
    "Run the parts": (
        "runtime.data", "runtime.inventory", "runtime.metrics_host", "runtime.metrics_port",
        "collect.gnmi.publisher.spool", "collect.gnmi.publisher.spool_bytes",
    ),
    "Read switches by gNMI": (
        "collect.gnmi.targets_file", "collect.gnmi.cadence_s", "collect.gnmi.tls", "collect.gnmi.username",
        "collect.gnmi.password_file", "collect.gnmi.share_group",
    ),
    "Read switches by SNMP": (
        "collect.snmp.targets_file", "collect.snmp.cadence_s", "collect.snmp.community_file", "collect.snmp.traps",
    ),
    "Let switches, gnmic or Telegraf send": (
        "collect.dialout.listen", "collect.dialout.targets_file", "collect.bridge.topics", "collect.bridge.devices",
    ),
    "Read hosts and probe rails": (
        "collect.host.device", "collect.nic.exclude", "collect.host.nccl_logs", "collect.probe.inventory",
        "collect.probe.dscp",
    ),
    "Know the jobs": (
        "collect.jobs.slurm.command", "collect.jobs.slurm.tenants", "collect.jobs.kubernetes.kubeconfig",
    ),
    "Tune detection": ("detect.flap.presets", "detect.down.open_after_s", "detect.drift.allowed"),
    "Act": (
        "decide.mode", "decide.policy", "decide.trusted_keys", "decide.capacity_floor", "decide.fabric_cap",
        "decide.pod_cap", "decide.cadence_s",
    ),
    "Alert and open tickets": (
        "notify.alertmanagers", "notify.dashboard_url", "tickets.url", "tickets.token_file",
    ),
}  # fmt: skip
"""The settings of the page by task, in its order."""


def settings() -> dict[str, Setting]:
    """Return every setting by each of its paths."""
    found: dict[str, Setting] = {}
    for section in sections():
        for one in section.settings:
            found |= {f"{path}.{one.name}": one for path in section.paths}
    return found


def page() -> str:
    known = settings()
    return "\n".join([_HEAD, *(line for task in TASKS for line in _lines(task, known))])


def _lines(task: str, known: Mapping[str, Setting]) -> Iterator[str]:
    yield f"## {task}\n"
    yield from table((_name(path), known[path]) for path in TASKS[task])


def _name(path: str) -> str:
    section, _, name = path.rpartition(".")
    return f"`[{section}]` `{name}`"
