"""The demo from its start to its end on the real parts, with outsiders looking on and parts being killed."""

import json

import pytest

from lab.demo.state import TABLES
from tests.e2e.demo_scenario import KILLED, Observed, observe

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="session")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observed:
    """One demo of a minute, watched and harassed; every test here looks at the same one."""
    return observe(tmp_path_factory.mktemp("demo"))


def test_every_fault_is_found_and_none_invented(observed: Observed) -> None:
    """Although its worker, its sink and its servers were killed, the demo ends with a perfect score."""
    assert observed.exit_code == 0, json.dumps(observed.report) + observed.log
    assert observed.report["fine"]
    score = observed.report["score"]
    assert (score["precision"], score["recall"]) == (1, 1)
    assert {slug: counts["found"] for slug, counts in score["conditions"].items()} == {
        "link/flap": 2,
        "link/down": 2,
        "device/down": 2,
        "telemetry/stale": 1,
        "congestion/pfc-storm": 1,
        "host/gpu-fault": 1,
    }


def test_everything_that_happened_has_rows(observed: Observed) -> None:
    """Samples, events, facts, status, findings, remediations, results, controls and rejected are in ClickHouse."""
    assert set(observed.report["rows"]) == set(TABLES)
    assert all(observed.report["rows"].values())


def test_the_report_reports_when_the_first_finding_came(observed: Observed) -> None:
    """The report has the time from the start of the command to the first finding."""
    assert 0 < observed.report["first_finding_s"] < 60


@pytest.mark.peer("kcat")
def test_kcat_reads_findings_as_cloud_events(observed: Observed) -> None:
    """A plain consumer finds the CloudEvents attributes in the headers, the subject as key, and JSON as value."""
    if observed.kcat is None:
        pytest.skip("kcat is not installed")
    for line in observed.kcat.splitlines():
        headers, key, value = line.split("\t", 2)
        finding = json.loads(value)
        attributes = dict(pair.split("=", 1) for pair in headers.split(","))
        assert attributes["ce_specversion"] == "1.0"
        assert attributes["ce_type"] == "railsight.finding.v1"
        assert attributes["ce_id"] == f"{finding['id']}/{finding['revision']}"
        assert attributes["ce_subject"] == key == finding["subject"]["id"]
        assert attributes["content-type"] == "application/json"


@pytest.mark.peer("curl")
def test_curl_asks_clickhouse(observed: Observed) -> None:
    """A query in a URL is answered while the demo runs."""
    if observed.curl is None:
        pytest.skip("curl is not installed")
    assert int(observed.curl) > 0


def test_the_driver_asks_clickhouse(observed: Observed) -> None:
    """clickhouse-connect, as users have it, is answered while the demo runs."""
    assert observed.driver > 0


@pytest.mark.parametrize("part", KILLED)
def test_what_is_killed_comes_back(observed: Observed, part: str) -> None:
    """The supervisor brings back the worker, the sink and the servers within seconds, and the report counts it."""
    assert observed.back_s[part] < 5
    assert observed.report["restarts"][part] == 1


def test_no_finding_has_two_ids(observed: Observed) -> None:
    """After kills no episode has a second id; the demo checks this itself."""
    assert observed.report["problems"] == []


def test_no_reading_is_missing_or_double(observed: Observed) -> None:
    """ClickHouse has each reading that Kafka has, once, with all its rows, and at least all that was acknowledged."""
    stored = dict(observed.stored)
    assert len(stored) == len(observed.stored), "a reading was stored twice"
    assert stored == observed.sent
    assert observed.sample_rows == sum(observed.sent.values())
    acknowledged = observed.counted["acknowledged"]["railsight.samples.v1"]
    rows = observed.counted["acknowledged_rows"]["railsight.samples.v1"]
    assert 0 < acknowledged <= len(stored)
    assert 0 < rows <= observed.sample_rows


def test_people_can_ask_what_is_open_and_why(observed: Observed) -> None:
    """`findings` lists it, `explain` gives the evidence, `ack` acknowledges it."""
    assert observed.listed is not None
    assert observed.explained is not None
    assert observed.acknowledged is not None
    first = json.loads(observed.listed.stdout.splitlines()[0])
    assert observed.explained.returncode == 0, observed.explained.stderr
    assert first["id"] in observed.explained.stdout
    assert "evidence" in observed.explained.stdout
    assert observed.acknowledged.stdout.startswith(f"acknowledged {first['id']}"), observed.acknowledged.stderr


def test_who_follows_the_findings_sees_them_end(observed: Observed) -> None:
    """`findings --follow` goes on through the broker's kill: it has revisions from before and the final ones."""
    by_status = {status: [f for f in observed.followed if f["status"] == status] for status in ("OPEN", "RESOLVED")}
    assert by_status["OPEN"]
    assert {finding["condition"] for finding in by_status["RESOLVED"]} >= {"LINK_DOWN", "DEVICE_DOWN"}
    assert len({finding["id"] for finding in observed.followed}) <= observed.report["findings"]


def test_nothing_is_left_running(observed: Observed) -> None:
    """All processes that the command started end with it."""
    assert observed.left == []


def test_progress_is_reported_on_standard_error(observed: Observed) -> None:
    """Without a screen, standard output has the report only; addresses go to standard error."""
    assert "kafka 127.0.0.1:" in observed.log
    assert "Traceback" not in observed.log
