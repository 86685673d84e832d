"""Tests the forms of the schema: one server, replicas, shards; retention and users."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from streams.embedded.clickhouse.params import READER_LIMITS as EMBEDDED_LIMITS
from streams.store.migrate import apply, shipped_migrations
from streams.store.params import StoreParams
from streams.store.schema_form import SHARDING_KEYS, render
from streams.store.users import PLACEHOLDERS, READER_LIMITS, USERS, read_passwords, user_statements
from streams.wire.errors import Misconfigured
from tests.fakes.database import FakeDatabase

REPLICAS = StoreParams(cluster="net")
SHARDS = StoreParams(cluster="net", sharded=True)
STATEMENTS = [statement for migration in shipped_migrations() for statement in migration.statements()]


def rendered(params: StoreParams) -> list[str]:
    """Return all statements of a new database."""
    return [one for statement in STATEMENTS for one in render(statement, params)]


def test_one_server_has_the_statements_of_the_migrations() -> None:
    """Nothing is changed."""
    assert rendered(StoreParams()) == STATEMENTS


@pytest.mark.parametrize("params", [REPLICAS, SHARDS], ids=["replicas", "shards"])
def test_every_statement_of_a_cluster_runs_on_all_hosts(params: StoreParams) -> None:
    """No table is left unreplicated, and none keeps the name of those that 0004 and 0017 copy."""
    for statement in rendered(params):
        assert "ON CLUSTER `net`" in statement
        assert not re.search(r"ENGINE = \w*MergeTree(?!\()", statement), statement
        assert re.search(r"ENGINE = (Replicated|Distributed)", statement) or not statement.startswith("CREATE TABLE")
        assert not re.search(r"samples(_1m)?_next", statement)
        assert "non_replicated" not in statement
    assert any("ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}', minutes)" in one
               for one in rendered(params))  # fmt: skip


def test_a_sharded_table_is_distributed_over_local_ones_by_a_column_that_it_has() -> None:
    """Rows of one device, finding or remediation are on one shard."""
    statements = rendered(SHARDS)
    local = {
        found[1]: one for one in statements if (found := re.match(r"CREATE TABLE IF NOT EXISTS (\w+)_local ", one))
    }
    keys = {
        found[1]: found[2]
        for one in statements
        if (found := re.search(r"Distributed\(`net`, `railsight`, (\w+)_local, cityHash64\((\w+)\)\)", one))
    }
    assert set(local) == set(keys)
    assert set(SHARDING_KEYS) < set(keys)
    for table, key in keys.items():
        assert re.search(rf"^    {key} ", local[table], re.MULTILINE), table
    added = [one for one in statements if "ADD COLUMN IF NOT EXISTS prior_values" in one]
    assert [one.split()[2] for one in added] == ["remediation_results_local", "remediation_results"]
    computed = [one for one in statements if "oper_up_min Nullable(Float32) ALIAS" in one]
    assert [one.split()[2] for one in computed] == [
        "samples_1m_local", "samples_1m", "samples_1h_local", "samples_1h",
    ]  # fmt: skip


def test_another_form_is_refused() -> None:
    """Tables of one server do not become replicated by a setting."""
    database = FakeDatabase()
    database.engine = "MergeTree"
    with pytest.raises(Misconfigured, match=r"the engine MergeTree, .* want ReplicatedMergeTree"):
        apply(database, (), REPLICAS)
    with pytest.raises(Misconfigured, match="want Distributed"):
        apply(database, (), SHARDS)
    assert not database.commands
    with pytest.raises(ValidationError, match="sharded needs cluster"):
        StoreParams(sharded=True)


def test_users_have_the_least_rights(tmp_path: Path) -> None:
    """The reader reads, within limits that it cannot raise; passwords are made once and quoted."""
    statements = list(user_statements(StoreParams(database="net"), dict.fromkeys(USERS, "it's")))
    grants = {one.split(" TO ")[1]: one.split(" TO ")[0] for one in statements if one.startswith("GRANT")}
    assert grants["railsight_reader"] == "GRANT SELECT ON `net`.*"
    assert "GRANT SELECT, INSERT, ALTER DELETE ON `net`.* TO railsight_sink" in statements
    assert not any("ALL" in one.split() or "*.*" in one for one in statements)
    profiles = [one for one in statements if "SETTINGS PROFILE" in one and "USER" not in one]
    assert [one.split()[0] for one in profiles] == ["CREATE", "ALTER"], "a profile of an earlier version is changed"
    for profile in profiles:
        assert "readonly = 2 READONLY" in profile
        assert "max_execution_time = 30 MIN 1 MAX 60" in profile
        assert "use_query_condition_cache = 0" in profile, "else a query may lack rows (test_queries.py)"
        assert all("MIN 1 MAX" in one for one in profile.split(", ") if one.split()[0].startswith("max_")), (
            "0 is no limit"
        )
    assert any("BY 'it\\'s'" in one for one in statements)
    first = read_passwords(tmp_path / "users")
    assert read_passwords(tmp_path / "users") == first
    assert len(set(first.values())) == len(USERS)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "users").iterdir()} == {0o600}
    assert "PASSWORD" in "".join(user_statements(StoreParams(), PLACEHOLDERS))


def test_readers_have_the_same_limits_on_a_server_and_in_the_embedded_engine() -> None:
    """Memory is a setting of the embedded engine, of all its users."""
    assert {name: both for name, both in READER_LIMITS.items() if name != "max_memory_usage"} == EMBEDDED_LIMITS
