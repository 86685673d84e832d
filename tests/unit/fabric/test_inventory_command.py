"""Tests `railsight inventory check`: all problems, as lines and as JSON."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from streams.fabric.inventory import Inventory, compare, read_folder, validate, write_folder
from tests.fixtures.command_lines import run
from tests.worlds.small_fabric import inventory, link

DOUBTFUL = link("p1-l0/x", "p1-h1/x", "host-link", rail=0, plane=0)
"""A second link of a rail: a contradiction, and not an error."""


def _folder(path: Path, *links: object) -> Path:
    own = inventory()
    write_folder(Inventory(own.devices, (*own.links, *links)), path)  # type: ignore[arg-type]
    return path


def test_all_problems_are_reported_as_lines_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each problem has table, rows, rule and message, and marks errors; the exit status is 1."""
    folder = _folder(tmp_path, DOUBTFUL, link("p1-h1/y", "ghost/1", "host-link"))
    assert run("inventory", "check", str(folder), "--json") == 1
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["inventory"], report["is"]) == (str(folder), "wrong")
    assert [(each["rule"], each["table"], each["rows"], each["is_error"]) for each in report["problems"]] == [
        ("unknown-device", "links", [26], True),
        ("rail-used-twice", "links", [9, 25], False),
    ]
    assert err.splitlines() == [
        "railsight inventory: links row 26: ghost is not among the devices",
        "railsight inventory: links rows 9, 25: p1-h1 has 2 links of rail 0 in plane 0: "
        "p1-l0/d1 to p1-h1/e0 and p1-l0/x to p1-h1/x",
    ]


def test_maintenance_that_is_over_is_no_contradiction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command uses the current time: both leaves of a pod until 2020 are no problem, until 2999 they are."""
    for until, code in (("2020-01-01T00:00:00+00:00", 0), ("2999-01-01T00:00:00+00:00", 1)):
        write_folder(inventory(maintenance=["p1-l0", "p1-l1"], until=until), tmp_path)
        assert run("inventory", "check", str(tmp_path)) == code
    assert "p1-l0, p1-l1 are in maintenance at once, until 2999-" in capsys.readouterr().err


def test_an_inventory_with_contradictions_is_readable(tmp_path: Path) -> None:
    """A fabric under construction can be monitored; an inventory with errors cannot."""
    examined = validate(_folder(tmp_path, DOUBTFUL))
    assert len(examined.problems) == 1
    assert examined.errors == []
    assert read_folder(tmp_path) == examined.inventory


def test_an_inventory_is_replaced_only_by_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that a person wrote is not generated over; one with other files is written to."""
    own = _folder(tmp_path / "own")
    before = (own / "devices.csv").read_text()
    assert run("inventory", "generate", str(own), "--gpus", "64") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"railsight: {own} has an inventory (devices.csv, links.csv); choose another folder, or replace it with --force"
    )
    assert (own / "devices.csv").read_text() == before
    assert run("inventory", "generate", str(own), "--gpus", "64", "--force") == 0
    assert (own / "devices.csv").read_text() != before
    (tmp_path / "notes.txt").touch()
    assert run("inventory", "generate", str(tmp_path), "--gpus", "64") == 0


def test_an_inventory_without_devices_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables with a header only are no fabric; the check refuses them, and nothing is published."""
    (tmp_path / "devices.csv").write_text("name,kind,tier\n")
    (tmp_path / "links.csv").write_text("a_device,a_port,z_device,z_port,role\n")
    assert run("inventory", "check", str(tmp_path)) == 1
    assert capsys.readouterr().err.splitlines() == ["railsight inventory: devices: no device is listed"]
    assert run("inventory", "apply", str(tmp_path), "--bootstrap", "127.0.0.1:1") == 1


def test_the_changes_of_an_inventory() -> None:
    """Rows by name; a link by its ports, in either order."""
    own = inventory()
    first, *others = own.links
    turned = first._replace(a_device=first.z_device, a_port=first.z_port, z_device=first.a_device, z_port=first.a_port)
    assert [str(one) for one in compare(own, replace(own, links=(turned, *others)))] == [
        "devices: unchanged", "links: unchanged",
    ]  # fmt: skip
    more = link("p1-l0/x", "p1-h1/x", "host-link", rail=0, plane=0)
    after = replace(own,
        devices=(own.devices[0]._replace(site="y"), *own.devices[2:]), links=(*others[6:], more),
    )  # fmt: skip
    devices, links = compare(own, after)
    assert (devices.added, devices.removed, devices.changed) == ((), (own.devices[1].name,), (own.devices[0].name,))
    assert (len(links.removed), links.added) == (7, ("p1-h1/x -- p1-l0/x",))
    assert str(links).endswith(", …)")
