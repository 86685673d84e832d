"""The tests of `make test`, which protect each promise within 15 minutes, and those of the long part, `make test-all`.

`make test` runs all unit and contract tests but those of LONG, and of the others those of SHORT. A new module of
integration, e2e or faults belongs to the long part until it is listed here. Both paths and single tests can be listed.
"""

from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent


class Choice(NamedTuple):
    """A folder, a module or a test below tests/, with the reason for its part."""

    path: str
    reason: str


LONG = (
    Choice("unit/collectors/test_spoilt_trees.py", "tens of thousands of files of any content"),
    Choice("unit/lab", "the laboratory, which the product never imports"),
    Choice("unit/embedded", "the servers of one machine; every integration test of `make test` runs on them"),
    Choice(
        "unit/replay/test_policy_comparison.py::test_both_policies_decide_the_same_findings",
        "a whole recording through the stages and two policies",
    ),
    Choice(
        "unit/decide/test_histories.py::test_many_histories_keep_every_promise",
        "two thousand random histories of decide; each takes a fifth of a second",
    ),
    Choice("contract/docs/test_site.py", "builds the whole site"),
    Choice("contract/test_sbom.py", "resolves every package"),
)
SHORT = (
    Choice("integration/automation/test_kubernetes.py", "cordons and restarts of nodes by the official client"),
    Choice("integration/automation/test_links.py", "actions on links: drain, repair, restore"),
    Choice("integration/automation/test_process.py", "the automation as a process, killed between its steps"),
    Choice("integration/clickhouse_http/test_access.py", "who may read and write the embedded ClickHouse"),
    Choice("integration/collectors/test_bridge.py", "the bridge on a real broker"),
    Choice("integration/collectors/test_gnmi_recordings.py", "recordings of real switches by gNMI"),
    Choice("integration/collectors/test_host.py", "the host collector"),
    Choice("integration/collectors/test_sim_and_collector.py", "from a device to Kafka"),
    Choice("integration/collectors/test_snmp_recordings.py", "walks of real switches by SNMP"),
    Choice("integration/collectors/test_spool.py", "nothing acknowledged is lost while Kafka is away"),
    Choice("integration/collectors/test_sysfs_and_nic.py", "the NIC collector on trees of sysfs"),
    Choice("integration/kafka_identity/test_least_privilege.py", "each part has the rights that it needs and no other"),
    Choice("integration/notify/test_alertmanager.py", "pages of a real Alertmanager"),
    Choice("integration/runtime/test_chain.py", "the four stages on a real broker"),
    Choice("integration/runtime/test_controls.py", "controls reach decide"),
    Choice("integration/runtime/test_exactness.py", "a killed worker loses and repeats nothing"),
    Choice("integration/store/test_exactly_once.py", "a killed sink loses and repeats no row"),
    Choice("integration/store/test_migrations.py", "every migration from every version"),
    Choice("e2e/test_demo.py", "the whole path, with parts killed meanwhile"),
    Choice(
        "e2e/test_played.py::test_a_played_recording_gives_the_findings_of_the_backtest[worker killed]",
        "recordings through the running pipeline, as the backtest finds them",
    ),
    Choice(
        "faults/test_sequences.py::test_a_sequence_of_faults_breaks_no_promise[power-failure]",
        "a sequence of faults breaks no promise",
    ),
)


def is_long(nodeid: str) -> bool:
    """Return whether a test belongs to the long part, by its id from the repository's root."""
    path = nodeid.removeprefix("tests/")
    if path.startswith(("integration/", "e2e/", "faults/")):
        return not any(_is_below(path, choice) for choice in SHORT)
    return any(_is_below(path, choice) for choice in LONG)


def _is_below(path: str, choice: Choice) -> bool:
    return path == choice.path or path.startswith((f"{choice.path}/", f"{choice.path}::", f"{choice.path}["))
