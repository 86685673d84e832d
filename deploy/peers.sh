#!/usr/bin/env bash
# Installs the programs of others that the tests use, from Debian's own packages, and starts none of them.
#
# Nothing to do when all are there. Works as root, or through sudo where that asks for no password.
set -euo pipefail

PACKAGES=(kcat rsyslog rsyslog-gnutls snmp snmpd prometheus-alertmanager prometheus iproute2 nftables curl slurmctld slurmd slurm-client munge systemd)
POLICY=/usr/sbin/policy-rc.d

missing() {
    local package
    for package in "${PACKAGES[@]}"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
    done
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "deploy/peers.sh: this is no Debian; install by hand: ${PACKAGES[*]}" >&2
    exit 1
fi

mapfile -t wanted < <(missing)
if [ "${#wanted[@]}" -eq 0 ]; then
    exit 0
fi

if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        exec sudo -n "$(realpath "$0")" "$@"
    fi
    echo "deploy/peers.sh: installing ${wanted[*]} needs root; run it as root, or: sudo apt-get install ${wanted[*]}" >&2
    exit 1
fi

# Debian starts a daemon when its package is installed, unless this file exits with 101. An existing file stays.
restore() {
    rm -f "$POLICY"
    if [ -e "$POLICY.railsight" ]; then
        mv "$POLICY.railsight" "$POLICY"
    fi
}
if [ -e "$POLICY" ]; then
    mv "$POLICY" "$POLICY.railsight"
fi
trap restore EXIT
printf '#!/bin/sh\nexit 101\n' >"$POLICY"
chmod 755 "$POLICY"

export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
apt-get install --quiet=2 --yes --no-install-recommends "${wanted[@]}"

mapfile -t wanted < <(missing)
if [ "${#wanted[@]}" -ne 0 ]; then
    echo "deploy/peers.sh: still not installed: ${wanted[*]}" >&2
    exit 1
fi
