"""From `railsight init` to the first finding, on real SNMP agents in network namespaces (docs/first-finding.md)."""

import json
import re
from pathlib import Path

import pytest

from streams.config.first_configuration import FirstConfiguration, write
from tests.documented.first_finding import CAST, COLUMNS, PAGE, Outcome, cast_lines, run
from tests.documented.first_finding_page import page
from tests.documented.snmp_fabric import reason_not_to_run, snmp_fabric


@pytest.mark.timeout(900)
def test_a_newcomer_gets_from_init_to_a_finding(tmp_path: Path) -> None:
    """Types the commands of the page: the pulled cable is the finding, and no other link is."""
    if reason := reason_not_to_run():
        pytest.skip(reason)
    agents, home = tmp_path / "agents", tmp_path / "noc"
    agents.mkdir()
    home.mkdir()
    with snmp_fabric(agents) as fabric:
        outcome = run(home, fabric, print)
    assert "gpu3/rail1 -- leaf1/swp3 is down" in outcome.finding
    assert outcome.text.count(" OPEN ") == 1
    assert outcome.ready_s < outcome.pulled_s < outcome.found_s
    assert outcome.keystrokes > 200


def test_the_recording_is_a_cast_that_ends_with_the_finding_of_the_page() -> None:
    """Its times grow, and its text has what the page shows."""
    head, *rows = (json.loads(line) for line in CAST.read_text("utf-8").splitlines())
    assert head["version"] == 2 and head["width"] == COLUMNS
    times = [row[0] for row in rows]
    assert times == sorted(times) and {row[1] for row in rows} == {"o"}
    # A terminal wraps the line where its width ends, between any two words.
    for text in ("".join(row[2] for row in rows), PAGE.read_text("utf-8")):
        assert "gpu3/rail1 -- leaf1/swp3 is down" in " ".join(text.split())


def test_a_row_of_the_page_has_the_columns_that_init_writes(tmp_path: Path) -> None:
    """The header of a first links.csv is that of the rows that the page appends."""
    write(tmp_path, FirstConfiguration(gnmi={"leaf1": "10.0.0.1"}), force=False)
    (row,) = re.findall(r"echo (gpu\$n,\S*);", PAGE.read_text("utf-8"))
    assert row.count(",") == (tmp_path / "inventory/links.csv").read_text("utf-8").splitlines()[0].count(",")


def test_the_page_has_the_times_and_keys_of_its_run() -> None:
    """They come from the run alone; blank lines of the terminal are left out."""
    outcome = Outcome(100.4, 110.0, 160.6, 321, "a\n\nb", [(0.5, "a"), (1.5, "b")], "link/down")
    text = page(outcome)
    assert "| 100 |" in text and "| 51 |" in text and "| 161 |" in text and "321 keystrokes" in text
    assert "```text\na\nb\n```" in text
    assert [json.loads(line) for line in cast_lines(outcome).splitlines()][1:] == [[0.5, "o", "a"], [1.5, "o", "b"]]
