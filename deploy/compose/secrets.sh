#!/usr/bin/env bash
# Makes the passwords that compose.yaml hands to its containers, each once: what is there is kept.
#
# Containers run as users of their own, so a file is readable to all, inside a folder that only its owner can enter.
set -euo pipefail

folder=$(realpath "$(dirname "$0")")/secrets
mkdir -p "$folder"
chmod 700 "$folder"
for name in clickhouse_password clickhouse_reader_password grafana_admin_password; do
    if [ ! -s "$folder/$name" ]; then
        (umask 077 && od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$folder/$name")
        chmod 444 "$folder/$name"
        echo "made $folder/$name"
    fi
done
