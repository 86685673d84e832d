"""Prepares the data folder before the engine opens it, so that the engine behaves like a server.

chdb starts as clickhouse-local does: its default database is an overlay that also reads files of the machine by
name, and its user has all privileges. A configuration file sets another default database (dropped at once), the
metadata of an ordinary `default` database, memory limits, and a user without privileges outside of the database.
"""

import fcntl
import os
import time
import uuid
from pathlib import Path

from streams.embedded.clickhouse.params import Limits
from streams.wire.errors import Misconfigured

# The overlay that clickhouse-local creates as its default database; engine.py drops it after the start.
BOOT_DATABASE = "_boot"
_LOCK_WITHIN_S = 2.0

# A column of a compact part has pieces of some KiB. With reads of 128 KiB, the engine's default, the merge of 32 such
# parts read ten times their bytes and took 1.72 instead of 1.48 CPU s a million rows, and a scan of one column 27
# instead of 18 ms; with 8 KiB it takes longer again.
_READ_BYTES = 32 << 10

# Each thread of the engine, even an idle one, has three files of /proc open: 152 threads were observed after a minute
# of twelve clients, with half of the usual 1,024 descriptors.
_CONFIG = """<clickhouse>
<default_database>{boot}</default_database>
<users_config>{users}</users_config>
<max_server_memory_usage>{memory}</max_server_memory_usage>
<max_thread_pool_free_size>64</max_thread_pool_free_size>
<custom_settings_prefixes>SQL_</custom_settings_prefixes>
<display_secrets_in_show_and_select>0</display_secrets_in_show_and_select>
<access_control_improvements>
<table_engines_require_grant>true</table_engines_require_grant>
</access_control_improvements>
</clickhouse>
"""

# SOURCES are all table functions and engines that access data outside of the database: FILE, URL, REMOTE, S3, ODBC ...
_USERS = """<clickhouse>
<users><default>
<password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
<grants>
<query>GRANT ALL ON *.*</query>
<query>REVOKE SOURCES ON *.*</query>
<query>REVOKE TABLE ENGINE ON File, TABLE ENGINE ON Executable, TABLE ENGINE ON ExecutablePool, \
TABLE ENGINE ON URL, TABLE ENGINE ON SQLite</query>
</grants>
</default></users>
<profiles><default>
<max_memory_usage>{memory}</max_memory_usage>
<max_read_buffer_size_local_fs>{read}</max_read_buffer_size_local_fs>
</default></profiles>
<quotas><default/></quotas>
</clickhouse>
"""


def lock(data: Path) -> int:
    """Lock the folder and return the lock's descriptor; raise Misconfigured if another process has it.

    Waits briefly, because a server whose parent was just killed is still ending.
    """
    descriptor = os.open(data / "railsight.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    give_up = time.monotonic() + _LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < give_up:
                time.sleep(0.05)
                continue
            os.close(descriptor)
            raise Misconfigured(f"ClickHouse's data folder {data} is in use by another process") from None
        return descriptor


def write_configuration(data: Path, limits: Limits) -> Path:
    """Write the engine's configuration and the metadata of its first database; return the configuration's path."""
    server = data / "face"
    server.mkdir(exist_ok=True)
    users, config = server / "users.xml", server / "config.xml"
    users.write_text(_USERS.format(memory=limits.query_memory_bytes, read=_READ_BYTES))
    config.write_text(_CONFIG.format(boot=BOOT_DATABASE, users=_escaped(users), memory=limits.server_memory_bytes))
    metadata = data / "metadata"
    metadata.mkdir(exist_ok=True)
    default = metadata / "default.sql"
    if not default.exists():
        default.write_text(f"ATTACH DATABASE _ UUID '{uuid.uuid4()}'\nENGINE = Atomic\n")
    # clickhouse-local gives its overlay the UUID that this link names, which is that of the database `default`:
    # the engine then ends with "Mapping for table with UUID … already exists". The engine recreates the link.
    link = metadata / "default"
    if link.is_symlink():
        link.unlink()
    return config


def _escaped(path: Path) -> str:
    return str(path).replace("&", "&amp;").replace("<", "&lt;")
