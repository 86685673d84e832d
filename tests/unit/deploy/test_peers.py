"""deploy/peers.sh, run with apt-get, dpkg-query, id and sudo of ours in front of the real ones."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "deploy/peers.sh"
PACKAGES = (
    "kcat", "rsyslog", "rsyslog-gnutls", "snmp", "snmpd", "prometheus-alertmanager", "prometheus", "iproute2",
    "nftables", "curl", "slurmctld", "slurmd", "slurm-client", "munge", "systemd",
)  # fmt: skip


class Machine:
    """A path with stand-ins for what the script calls, which log their calls, and a policy file of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = root / "calls"
        self.calls.touch()
        self.installed = root / "installed"
        self.installed.mkdir()
        self.policy = root / "policy-rc.d"
        self.script = root / "peers.sh"
        # The one path that would touch this machine becomes the test's own.
        self.script.write_text(SCRIPT.read_text().replace("/usr/sbin/policy-rc.d", str(self.policy)))
        self.script.chmod(0o755)
        self.program("dpkg-query", f'[ -e {self.installed}/"$4" ] && printf installed')
        self.program("id", "echo 0")
        self.program(
            "apt-get",
            f'echo "apt-get $*" >>{self.calls}; [ "$1" = install ] || exit 0\n'
            f"sh {self.policy} && exit 9  # it would have started a daemon\n"
            f'for package; do case "$package" in -*|install) ;; *) touch {self.installed}/"$package";; esac; done',
        )

    def program(self, name: str, body: str) -> None:
        path = self.root / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self) -> subprocess.CompletedProcess[str]:
        path = f"{self.root}:/usr/bin:/bin"
        return subprocess.run(
            [str(self.script)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path},
            timeout=30,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine on which nothing is installed yet."""
    return Machine(tmp_path)


def test_all_there_is_a_quick_exit(machine: Machine) -> None:
    """Nothing is called where nothing is missing, so that it costs nothing to run each time."""
    for package in PACKAGES:
        (machine.installed / package).touch()
    assert machine.run().returncode == 0
    assert machine.calls.read_text() == ""


def test_only_what_is_missing_is_installed_and_nothing_started(machine: Machine) -> None:
    """Daemons are refused by policy while packages are installed; the policy file is gone afterwards."""
    (machine.installed / "curl").touch()
    done = machine.run()
    assert done.returncode == 0, done.stderr
    install = machine.calls.read_text().splitlines()[-1]
    assert install.endswith(
        " kcat rsyslog rsyslog-gnutls snmp snmpd prometheus-alertmanager prometheus iproute2 nftables slurmctld slurmd"
        " slurm-client munge systemd"
    )
    assert not machine.policy.exists()


def test_a_policy_of_the_machines_own_is_retained(machine: Machine) -> None:
    """An existing file is unchanged afterwards."""
    machine.policy.write_text("#!/bin/sh\nexit 0\n")
    assert machine.run().returncode == 0
    assert machine.policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_a_failed_install_fails_and_leaves_the_policy_as_it_was(machine: Machine) -> None:
    """An archive that is away is an error of this script, not of a test an hour later."""
    machine.program("apt-get", "exit 100")
    assert machine.run().returncode == 100
    assert not machine.policy.exists()


def test_without_root_or_sudo_it_reports_what_to_do(machine: Machine) -> None:
    """One clear line, and nothing is tried."""
    machine.program("id", "echo 1000")
    machine.program("sudo", "exit 1")
    done = machine.run()
    assert done.returncode == 1
    assert "needs root" in done.stderr and "sudo apt-get install kcat" in done.stderr
    assert machine.calls.read_text() == ""


def test_with_sudo_it_goes_through_it(machine: Machine) -> None:
    """An ordinary user whose sudo asks for no password needs nothing else."""
    machine.program("id", f"[ -e {machine.root}/root ] && echo 0 || echo 1000")
    machine.program("sudo", f'touch {machine.root}/root; [ "$2" = true ] || exec "$2"')
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert "install" in machine.calls.read_text()
