"""The data folder: what must stand in it before the engine opens it, so that the engine behaves like a server.

chdb starts as clickhouse-local does: its default database is an overlay that also reads files of the machine by
name, and its user may do everything. A configuration file gives it another default database (dropped at once), the
metadata of an ordinary `default` database, bounds on memory, and a user without any grant on what lies outside.
"""

import fcntl
import os
import time
import uuid
from pathlib import Path

from streams.embedded.clickhouse.params import Limits
from streams.wire.errors import Misconfigured

# The overlay that clickhouse-local makes of its default database; engine.py drops it after the start.
BOOT_DATABASE = "_boot"
_LOCK_WITHIN_S = 2.0

# A column of a compact part is read in pieces of some KiB each. By 128 KiB, as the engine would, the merge of 32 such
# parts read ten times their bytes, 1.72 instead of 1.48 CPU s a million rows, and a scan of one column 27 instead of
# 18 ms; by 8 KiB it takes more again.
_READ_BYTES = 32 << 10

# Each thread of the engine keeps three files of /proc open, idle ones too: 152 of them were seen after a minute of
# twelve clients, with half of the usual 1,024 descriptors.
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

# SOURCES is every table function and engine that reaches beyond the database: FILE, URL, REMOTE, S3, ODBC and so on.
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
    """Lock the folder and return the descriptor that holds it; raise Misconfigured if another process keeps it.

    It waits a little: a server whose parent was killed a moment ago is still ending.
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
    face = data / "face"
    face.mkdir(exist_ok=True)
    users, config = face / "users.xml", face / "config.xml"
    users.write_text(_USERS.format(memory=limits.query_memory_bytes, read=_READ_BYTES))
    config.write_text(_CONFIG.format(boot=BOOT_DATABASE, users=_escaped(users), memory=limits.server_memory_bytes))
    metadata = data / "metadata"
    metadata.mkdir(exist_ok=True)
    default = metadata / "default.sql"
    if not default.exists():
        default.write_text(f"ATTACH DATABASE _ UUID '{uuid.uuid4()}'\nENGINE = Atomic\n")
    # clickhouse-local gives its overlay the UUID that this link names, which is that of the database `default`:
    # the engine then ends with "Mapping for table with UUID … already exists". The engine makes the link anew.
    link = metadata / "default"
    if link.is_symlink():
        link.unlink()
    return config


def _escaped(path: Path) -> str:
    return str(path).replace("&", "&amp;").replace("<", "&lt;")
