"""Prepares the data folder before the engine opens it, so that the engine behaves like a server.

chdb starts like clickhouse-local: its default database is an overlay that also reads files of the machine by name, and
its user has all privileges. A configuration file sets another default database (dropped at once), the metadata of an
ordinary `default` database, memory limits, and a user without privileges outside the database.

What chdb 26.9 honours, measured: grants and constraints of the user `default` in users.xml; settings in a
connection's address (`&readonly=2`, `&max_execution_time=30`), of which `readonly` cannot be reverted; the constraints
of a profile that `SET profile` names, which no other profile lifts, but not the profile's values. Not honoured: other
users (`&user=` and `user_directories` are ignored, CREATE USER fails, EXECUTE AS is disabled), `&profile=`,
`access_control_improvements`. `readonly` refuses neither INTO OUTFILE nor file() nor KILL QUERY of the only user.
So the reader is not a user of the engine: it is `default` with `readonly = 2`, its limits in the address, and the
constraints of the profile `reader`.
"""

import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from streams.embedded.clickhouse.params import READER_LIMITS, WITHOUT_SANDBOX_MACRO, Limits
from streams.embedded.directories import try_lock, write_private
from streams.wire.errors import Misconfigured

# The overlay that clickhouse-local creates as its default database; engine.py drops it after the start.
BOOT_DATABASE = "_boot"
_LOCK_WITHIN_S = 2.0

# A column of a compact part consists of pieces of some KiB. With the engine's default reads of 128 KiB, a merge of 32
# such parts read ten times their bytes and took 1.72 instead of 1.48 CPU s per million rows; a scan of one column took
# 27 instead of 18 ms. Reads of 8 KiB are slower.
_READ_BYTES = 32 << 10

# Each thread of the engine, even an idle one, has three open files in /proc: after a minute with twelve clients, 152
# threads used half of the usual 1,024 descriptors.
_CONFIG = """<clickhouse>
<default_database>{boot}</default_database>
<users_config>{users}</users_config>
<max_server_memory_usage>{memory}</max_server_memory_usage>
<max_thread_pool_free_size>64</max_thread_pool_free_size>
{macros}<custom_settings_prefixes>SQL_</custom_settings_prefixes>
<display_secrets_in_show_and_select>0</display_secrets_in_show_and_select>
</clickhouse>
"""

# Engines of the schema (MergeTree), and those in which clickhouse-connect and its users create tables. None of them
# reads a path, a host or another table; those that the engine does not check (EmbeddedRocksDB, Executable) meet the
# sandbox.
ENGINES = (
    "MergeTree", "ReplacingMergeTree", "SummingMergeTree", "AggregatingMergeTree", "CollapsingMergeTree",
    "VersionedCollapsingMergeTree", "CoalescingMergeTree", "Memory", "Null", "Log", "TinyLog",
)  # fmt: skip

# An allow list: the engine refuses every other privilege in all sessions.
# Not granted: CREATE DICTIONARY, FUNCTION, NAMED COLLECTION, USER and the like; BACKUP; SYSTEM; every table
# function with an external source (FILE, URL, REMOTE, S3, ODBC, MONGO, ...); introspection.
GRANTS = (
    "SELECT, INSERT, SHOW, SHOW ROW POLICIES, TRUNCATE, OPTIMIZE, UNDROP TABLE, CHECK, KILL QUERY, SYSTEM MERGES, "
    "ALTER UPDATE, ALTER DELETE, ALTER COLUMN, ALTER INDEX, ALTER PROJECTION, ALTER CONSTRAINT, ALTER STATISTICS, "
    "ALTER ORDER BY, ALTER SAMPLE BY, ALTER TTL, ALTER SETTINGS, ALTER MODIFY COMMENT, ALTER VIEW, "
    "DROP TABLE, DROP VIEW, DROP DATABASE, CREATE DATABASE, CREATE TABLE, CREATE VIEW ON *.*",
    "CREATE TEMPORARY TABLE, CREATE ARBITRARY TEMPORARY TABLE ON *.*",
    *(f"TABLE ENGINE ON {engine}" for engine in sorted(ENGINES)),
)

_USERS = """<clickhouse>
<users><default>
<password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
<grants>
{grants}
</grants>
</default></users>
<profiles><default>
<max_memory_usage>{memory}</max_memory_usage>
<max_read_buffer_size_local_fs>{read}</max_read_buffer_size_local_fs>
<allow_introspection_functions>0</allow_introspection_functions>
<use_query_condition_cache>0</use_query_condition_cache>
<constraints>
<max_memory_usage><min>1</min><max>{memory}</max></max_memory_usage>
{constants}
</constraints>
</default>
<{reader}><constraints>
{limits}
</constraints></{reader}></profiles>
<quotas><default/></quotas>
</clickhouse>
"""

READER_PROFILE = "reader"
"""The profile that constrains the settings of a reader's connection; another profile does not lift the constraints."""

_READER_LIMITS = {**READER_LIMITS, "max_temporary_data_on_disk_size_for_query": (1 << 30, 1 << 30)}
READER_SETTINGS: Mapping[str, str] = {name: str(value) for name, (value, _) in _READER_LIMITS.items()}
"""The settings of a reader's connection, unless the request overrides them."""

# Clients cannot change these settings: they name files, folders, hosts or secrets, contain SQL as text (which the
# gate does not see), select another language for statements, or select the default table engine.
_CONSTANT_SETTINGS = """
    additional_result_filter additional_table_filters column_names_for_schema_inference filter order
    parallel_replicas_custom_key schema_inference_hints select sort
    allow_experimental_kusto_dialect allow_experimental_polyglot_dialect allow_experimental_prql_dialect compatibility
    dialect enable_json_ast_dialect enable_trino_dialect implicit_table_at_top_level polyglot_dialect
    allow_experimental_eval_table_function allow_introspection_functions allow_python_table_function
    cloud_mode_database_engine cloud_mode_engine default_database_engine default_table_engine
    default_temporary_table_engine allow_deprecated_database_ordinary
    cluster_for_parallel_replicas format_avro_schema_registry_url s3_base s3queue_default_zookeeper_path url_base
    compression format_schema format_schema_message_name format_schema_source format_template_resultset
    format_template_resultset_format format_template_row format_template_row_format framing_output_format input_format
    input_format_record_errors_file_path into_outfile_create_parent_directories output_format output_format_schema
    rename_files_after_processing format_display_secrets_in_show_and_select filesystem_cache_name
    send_logs_level send_logs_source_regexp
""".split()  # noqa: SIM905 — a table of names


def lock(data: Path) -> int:
    """Lock the folder and return the lock's descriptor; raise Misconfigured if another process has the lock.

    Waits briefly, because a server still runs for a moment after its parent was killed.
    """
    give_up = time.monotonic() + _LOCK_WITHIN_S
    while (descriptor := try_lock(data, "railsight.lock")) is None:
        if time.monotonic() > give_up:
            raise Misconfigured(f"ClickHouse's data folder {data} is in use by another process")
        time.sleep(0.05)
    return descriptor


def engine_folder(data: Path) -> Path:
    """Return the folder of the engine's data, the only folder that its process can write."""
    return data / "engine"


def server_folder(data: Path) -> Path:
    """Return the folder of configuration, password and log, which the engine's process cannot write."""
    return data / "face"


def write_configuration(data: Path, limits: Limits, *, without_sandbox: bool = False) -> Path:
    """Write the engine's configuration and the metadata of its first database; return the configuration's path."""
    if (data / "metadata").exists():
        raise Misconfigured(
            f"ClickHouse's data folder {data} has the layout of an older version; move its content into {data}/engine"
        )
    server, engine = server_folder(data), engine_folder(data)
    for folder in (data, server, engine, engine / "tmp"):
        folder.mkdir(exist_ok=True, mode=0o700)
    users, config = server / "users.xml", server / "config.xml"
    write_private(
        users,
        _USERS.format(
            memory=limits.query_memory_bytes,
            read=_READ_BYTES,
            grants="\n".join(f"<query>GRANT {grant}</query>" for grant in GRANTS),
            reader=READER_PROFILE,
            limits="\n".join(
                f"<{name}><min>1</min><max>{highest}</max></{name}>" for name, (_, highest) in _READER_LIMITS.items()
            ),
            constants="\n".join(f"<{name}><readonly/></{name}>" for name in _CONSTANT_SETTINGS),
        ),
    )
    macros = f"<macros><{WITHOUT_SANDBOX_MACRO}>1</{WITHOUT_SANDBOX_MACRO}></macros>\n" if without_sandbox else ""
    text = _CONFIG.format(boot=BOOT_DATABASE, users=_escaped(users), memory=limits.server_memory_bytes, macros=macros)
    write_private(config, text)
    metadata = engine / "metadata"
    metadata.mkdir(exist_ok=True)
    default = metadata / "default.sql"
    if not default.exists():
        default.write_text(f"ATTACH DATABASE _ UUID '{uuid.uuid4()}'\nENGINE = Atomic\n")
    # clickhouse-local gives its overlay the UUID that this link names. The database `default` has the same UUID, so the
    # engine would end with "Mapping for table with UUID … already exists". The engine recreates the link.
    link = metadata / "default"
    if link.is_symlink():
        link.unlink()
    return config


def _escaped(path: Path) -> str:
    return str(path).replace("&", "&amp;").replace("<", "&lt;")
