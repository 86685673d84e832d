"""The software bill of materials is valid CycloneDX and has every package of the lock, with its digests."""

import json
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

ROOT = Path(__file__).parents[2]
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\;]+)", re.MULTILINE)


def make(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a target of the Makefile in the environment as it is."""
    return subprocess.run(
        ["make", "--silent", "--old-file=env", "-C", str(ROOT), *arguments],
        env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_bill_of_materials_has_every_package_of_the_lock(tmp_path: Path) -> None:
    """Without a network: the tool, which validates by the schema what it writes, comes from uv's cache."""
    written = tmp_path / "sbom.json"
    done = make("sbom", f"SBOM={written}", UV_OFFLINE="1")
    if done.returncode and "network was disabled" in done.stderr:
        pytest.skip("cyclonedx-bom is not in uv's cache: `make sbom` once, with a network")
    assert done.returncode == 0, done.stderr
    document = json.loads(written.read_text(encoding="utf-8"))
    assert (document["bomFormat"], document["specVersion"] >= "1.5") == ("CycloneDX", True)
    found = {one["purl"].partition("?")[0]: one for one in document["components"]}
    locked = _LOCKED.findall((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    expected = {f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{quote(version)}" for name, version in locked}
    assert len(expected) > 100
    assert expected == found.keys()
    assert all(reference["hashes"] for one in found.values() for reference in one["externalReferences"])


@pytest.mark.skipif("RAILSIGHT_AUDIT" not in os.environ, reason="needs PyPI's own service: RAILSIGHT_AUDIT=1")
def test_no_package_of_the_lock_has_a_known_vulnerability() -> None:
    """The mirrors of packages have no data about vulnerabilities."""
    done = make("audit")
    assert done.returncode == 0, done.stdout + done.stderr
