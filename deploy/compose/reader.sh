#!/usr/bin/env bash
# Run once by ClickHouse's image on a new volume: Grafana's user, who reads railsight's tables and changes nothing.
set -euo pipefail

digest=$(printf %s "$(cat /run/secrets/clickhouse_reader_password)" | sha256sum | cut -d ' ' -f 1)
# readonly = 2: Grafana's source sends settings such as max_execution_time with each query.
clickhouse-client --user railsight --password "$(cat /run/secrets/clickhouse_password)" --multiquery <<SQL
CREATE USER IF NOT EXISTS reader IDENTIFIED WITH sha256_hash BY '$digest' SETTINGS readonly = 2;
GRANT SELECT ON railsight.* TO reader;
SQL
