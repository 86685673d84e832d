#!/bin/sh
# clickhouse-connect's own integration tests against the embedded ClickHouse.
#
#   tests/bench/peer_clickhouse_connect.sh SOURCE_TREE [pytest arguments]
#
# SOURCE_TREE is a checkout of clickhouse-connect at the tag to be tried (v1.12.0): its packages on the registries
# leave the integration tests out. Nothing of it is copied into this repository. An environment of its own is made in
# a temporary folder (CLICKHOUSE_CONNECT_VERSION=1.8.0rc2, PANDAS_VERSION="<3" for other versions); the server listens on loopback, on a free port, and ends with this script.
set -eu

[ -d "${1:-}/tests/integration_tests" ] || { echo "usage: $0 SOURCE_TREE [pytest arguments]" >&2; exit 2; }
source_tree=$(cd "$1" && pwd)
shift
railsight=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-$railsight/.venv/bin/python}
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT INT TERM

"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
    "clickhouse-connect[sqlalchemy,async,rust]==${CLICKHOUSE_CONNECT_VERSION:-1.12.0}" \
    alembic orjson "pandas${PANDAS_VERSION:-}" polars pyarrow pytest pytest-asyncio pytest-dotenv pytest-mock pytest-xdist \
    sqlalchemy tzlocal

"$python" -c 'from streams.cli.main import main; main()' clickhouse --data "$work/data" --json >"$work/server" &
server=$!
tries=0
until [ -s "$work/server" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || { echo "the embedded ClickHouse did not start" >&2; exit 1; }
    sleep 0.1
done
port=$(sed -n 's/.*"url": "[^"]*:\([0-9]*\)".*/\1/p' "$work/server")

# 127.0.0.1, not localhost: by the latter the suite takes the server for its own container, with its log tables.
CLICKHOUSE_CONNECT_TEST_PASSWORD=$(cat "$(sed -n 's/.*"password_file": "\([^"]*\)".*/\1/p' "$work/server")")
export CLICKHOUSE_CONNECT_TEST_PASSWORD
export CLICKHOUSE_CONNECT_TEST_HOST=127.0.0.1 CLICKHOUSE_CONNECT_TEST_PORT="$port"
export CLICKHOUSE_CONNECT_TEST_DOCKER=False CLICKHOUSE_CONNECT_TEST_CLOUD=False
cd "$source_tree"
# The package under test is the installed one, not the tree: only its tests are taken from there.
"$work/venv/bin/pytest" -p no:cacheprovider --import-mode=append tests/integration_tests "$@"
