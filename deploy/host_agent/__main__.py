"""Builds the host agent's Debian package: `python -m deploy.host_agent OUT` (`make host-agent`).

The package installs the collectors of a GPU host (nic, host) and the packages that they need, pinned by
requirements.lock, below /opt/railsight. The host needs the Python minor version that built it, and no package index.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
EXTRA = "host"
_UNITS = ("railsight-collect@.service",)
_DROP_INS = ("railsight-.service.d", "railsight-collect@host.service.d", "railsight-collect@nic.service.d")
_LAUNCHER = """#!/bin/sh
# -I: neither the user's packages nor the environment's paths are used.
exec /usr/bin/python{python} -I -c 'import sys; sys.path.insert(0, "/opt/railsight/lib"); \
from streams.cli.main import main; main()' "$@"
"""
_CONTROL = """Package: railsight-host-agent
Version: {version}
Architecture: {architecture}
Maintainer: the authors of railsight
Depends: python{python}
Section: net
Priority: optional
Description: railsight's collectors for a GPU host
 Reads NICs, PCIe links, GPUs and the kernel log of this host, and publishes them to Kafka.
"""
_POSTINST = """#!/bin/sh
set -e
if ! getent passwd railsight >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/railsight --shell /usr/sbin/nologin railsight
fi
install -d -m 0750 -o root -g railsight /etc/railsight
if [ ! -e /etc/railsight/identity.key ]; then
    cat <<EOF
railsight: this host has no key of telemetry. On the machine with the fabric's secret run
    railsight key issue host/$(hostname)
and write its output to /etc/railsight/identity.key (group railsight, mode 0640), which identity.key_file names.
EOF
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
"""


def needed(extras: Iterable[str]) -> set[str]:
    """Return the packages that railsight with these extras needs on this machine, from the installed metadata."""
    found: set[str] = set()
    waiting = [("railsight", frozenset(extras))]
    while waiting:
        name, wanted = waiting.pop()
        for requirement in _requirements(name, wanted):
            package = canonicalize_name(requirement.name)
            if package not in found:
                found.add(package)
                waiting.append((package, frozenset(requirement.extras)))
    return found


def _requirements(name: str, extras: Iterable[str]) -> Iterator[Requirement]:
    try:
        texts = distribution(name).requires or ()
    except PackageNotFoundError:
        return
    for text in texts:
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": one}) for one in ("", *extras)):
            yield requirement


def locked(names: Iterable[str], lock: str) -> str:
    """Return the part of a lock that has these packages, with their digests."""
    # A package has a block for each range of Python versions that needs a different version of the package.
    blocks: dict[str, list[str]] = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock):
        if "==" in block:
            blocks.setdefault(canonicalize_name(block.partition("==")[0].partition("[")[0]), []).append(block)
    missing = sorted(set(names) - blocks.keys())
    if missing:
        raise SystemExit(f"requirements.lock lacks {', '.join(missing)}; run `make env` and `make lock`")
    return "\n".join(block for name in sorted(names) for block in blocks[name]) + "\n"


def lay_out(tree: Path, python: str) -> None:
    """Write the package's files to a folder: the launcher, the units, the control files."""
    launcher = tree / "opt/railsight/bin/railsight"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(_LAUNCHER.format(python=python))
    launcher.chmod(0o755)
    units = tree / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for unit in _UNITS:
        shutil.copy(ROOT / "deploy/systemd" / unit, units)
    for folder in _DROP_INS:
        shutil.copytree(ROOT / "deploy/systemd" / folder, units / folder)
    example = tree / "usr/share/doc/railsight-host-agent"
    example.mkdir(parents=True)
    shutil.copy(ROOT / "deploy/examples/collectors.toml", example)
    control = tree / "DEBIAN"
    control.mkdir()
    architecture = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout
    (control / "control").write_text(
        _CONTROL.format(version=version("railsight"), architecture=architecture.strip(), python=python)
    )
    (control / "postinst").write_text(_POSTINST)
    (control / "postinst").chmod(0o755)


def install(library: Path) -> None:
    """Install railsight and the locked packages into a folder; every file is checked against the lock's digests."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(locked(needed([EXTRA]), (ROOT / "requirements.lock").read_text("utf-8")))
        subprocess.run(
            [*pip, "--target", str(library), "--only-binary", ":all:", "--require-hashes", "-r", str(requirements)],
            check=True,
        )
        shutil.rmtree(library / "bin", ignore_errors=True)
        subprocess.run([*pip, "--target", str(library), "--no-build-isolation", str(ROOT)], check=True)
        shutil.rmtree(library / "bin")


def main(out: Path) -> None:
    """Build the package into a folder and print its path."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        lay_out(tree, python)
        install(tree / "opt/railsight/lib")
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", "-Zgzip", str(tree), str(out)], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
