"""Generates statements that try to reach files, processes and hosts from within ClickHouse.

The names come from the engine's own tables of functions, table functions and engines, with the examples of its
documentation; the frames put them everywhere where the grammar of ClickHouse takes an expression or a source; the
disguises write the same text in other characters.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Targets:
    """The targets that no statement may reach: files to read, a folder to write into, a listener's port, a command to run."""

    files: Sequence[str]
    folder: str
    port: int
    command: str


@dataclass(frozen=True)
class Vocabulary:
    """Names and examples of the engine."""

    functions: Sequence[str] = ()
    table_functions: Sequence[str] = ()
    engines: Sequence[str] = ()
    examples: Sequence[str] = ()


@dataclass
class Request:
    """One request: the body, the parameters of its URL, and external tables by name."""

    sql: str
    parameters: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)


_OUTSIDE_TABLE_FUNCTIONS = (
    "file", "fileCluster", "filesystem", "url", "urlCluster", "remote", "remoteSecure", "cluster",
    "clusterAllReplicas", "executable", "s3", "s3Cluster", "gcs", "hdfs", "sqlite", "mysql", "postgresql", "mongodb",
    "redis", "odbc", "jdbc", "icebergLocal", "deltaLakeLocal", "hudi", "paimonLocal", "python", "eval", "dictionary",
    "merge", "loop", "input", "format", "values", "null", "generateRandom", "view", "viewIfPermitted", "viewExplain",
    "fuzzQuery", "disk",
)  # fmt: skip
_OUTSIDE_FUNCTIONS = (
    "file", "dictGet", "dictGetOrDefault", "joinGet", "addressToLine", "addressToSymbol", "filesystemAvailable",
    "getServerSetting", "getMacro", "catboostEvaluate", "showCertificate", "getServerPort", "tcpPort", "hostName",
    "aiGenerate", "AIGenerate", "icebergTruncate", "structureToProtobufSchema", "logTrace", "evalMLMethod",
    "getOSKernelVersion", "serverUUID",
)  # fmt: skip
_OUTSIDE_ENGINES = (
    "File", "URL", "Executable", "ExecutablePool", "EmbeddedRocksDB", "SQLite", "S3", "S3Queue", "HDFS", "Kafka",
    "RabbitMQ", "NATS", "MySQL", "PostgreSQL", "MongoDB", "Redis", "ODBC", "JDBC", "Distributed", "Remote", "Merge",
    "Buffer", "Dictionary", "FileLog", "IcebergLocal", "DeltaLakeLocal", "Hudi", "KeeperMap", "Set", "Join",
    "StripeLog", "Alias", "QueryRunner", "TimeSeries", "Loop", "FuzzQuery", "Python",
)  # fmt: skip
_DATABASES = (
    "Filesystem", "SQLite", "MySQL", "PostgreSQL", "S3", "HDFS", "Backup", "Overlay", "DataLakeCatalog", "Lazy",
)  # fmt: skip
_SETTINGS = (
    "dialect", "additional_result_filter", "additional_table_filters", "format_schema", "select", "filter", "order",
    "schema_inference_hints", "url_base", "default_table_engine", "readonly", "allow_introspection_functions",
    "format_avro_schema_registry_url", "input_format_record_errors_file_path", "allow_experimental_eval_table_function",
    "allow_python_table_function", "implicit_table_at_top_level", "output_format_schema", "implicit_select", "user",
    "custom_x", "param_p", "compatibility", "default_database_engine", "rename_files_after_processing", "format",
    "http_headers_progress_interval_ms", "profile", "allow_ddl", "log_comment", "max_memory_usage", "storage_policy",
)  # fmt: skip
_FORMATS = ("CSV", "LineAsString", "RawBLOB", "Values", "Protobuf", "CapnProto", "Template", "Avro", "One", "Native",
            "MySQLDump", "Regexp", "AvroConfluent", "ProtobufList", "JSONEachRow", "Parquet")  # fmt: skip
_BLANKS = (" ", "\t", "\n", "\u3000", "\u00a0", "\ufeff", "/**/", "/* ' */", "/* /* */ */", "/* /* */ ' */", "-- x\n",
           "// '\n", "# x\n", "#!x\n", "\u2003", "\u200b", "\x00", "\x0b", "\x0c", "\u2028", "\u0085", "\u180e", "\u205f")  # fmt: skip
_QUOTES = (("'", "'"), ('"', '"'), ("`", "`"), ("\u2018", "\u2019"), ("\u201c", "\u201d"), ("$$", "$$"),
           ("$a$", "$a$"), ("$'$", "$'$"), ("\u00b4", "\u00b4"), ("\uff07", "\uff07"), ("$ $", "$ $"))  # fmt: skip


class Grammar:
    """Generates requests from one random generator: the same seed gives the same requests."""

    def __init__(self, rng: random.Random, targets: Targets, words: Vocabulary) -> None:
        self._rng = rng
        self._targets = targets
        self._words = words
        self._frames: Sequence[Callable[[], str]] = (
            self._select_scalar, self._select_from, self._join, self._insert_function, self._insert_values,
            self._insert_select, self._create_engine, self._create_as, self._create_default, self._create_view,
            self._create_dictionary, self._create_database, self._disk, self._outfile, self._infile, self._backup,
            self._attach, self._alter, self._explain, self._several, self._structure, self._format_data, self._show,
            self._system, self._access, self._function, self._prepared, self._example, self._set, self._heredoc,
            self._dialect, self._kql, self._named_collection, self._pipe, self._stray,
        )  # fmt: skip

    def request(self) -> Request:
        """Return the next request."""
        sql = self._one(self._frames)()
        if self._rng.random() < 0.6:
            sql = self._disguise(sql)
        if self._rng.random() < 0.1:
            sql = self._mutate(sql)
        request = Request(sql)
        if self._rng.random() < 0.25:
            request.parameters[self._one(_SETTINGS)] = self._value()
        if self._rng.random() < 0.15:
            request.parameters["param_p"] = self._one((self._text(), self._call(), "file", f"file('{self._file()}')"))
        if self._rng.random() < 0.12:
            request.tables["ext"] = self._ext_structure()
        return request

    def _one(self, of: Sequence[Any]) -> Any:
        return self._rng.choice(of)

    def _file(self) -> str:
        path = str(self._one(self._targets.files))
        return str(self._one((path, path, "file://" + path, "../../../../../../../.." + path, path + "::x", path[:-1] + "?",
                              path[:-1] + "*", "{" + path + "," + path + "}")))  # fmt: skip

    def _url(self) -> str:
        return f"{self._one(('http', 'https', 'ftp', 'tcp', 's3'))}://127.0.0.1:{self._targets.port}/canary"

    def _out(self) -> str:
        return f"{self._targets.folder}/out{self._rng.randrange(1000)}"

    def _text(self) -> str:
        host = f"127.0.0.1:{self._targets.port}"
        return str(self._one((self._file(), self._file(), self._url(), host, self._out(), self._targets.command, "x")))

    def _quoted(self, text: str | None = None) -> str:
        return "'" + (self._text() if text is None else text).replace("\\", "\\\\").replace("'", "\\'") + "'"

    def _value(self) -> str:
        return str(self._one((self._text(), "0", "1", f"file('{self._file()}')", "prql", "kusto", "Executable", "*",
                              f"x String DEFAULT file('{self._file()}')")))  # fmt: skip

    def _name(self, outside: Sequence[str], known: Sequence[str]) -> str:
        return str(self._one(known if known and self._rng.random() < 0.5 else outside))

    def _arguments(self) -> str:
        kinds = (
            self._quoted, self._quoted, self._quoted, lambda: str(self._one(_FORMATS)), lambda: self._quoted("x String"),
            lambda: self._quoted(str(self._one(_FORMATS))), lambda: str(self._rng.randrange(5)), lambda: "{p:String}",
            lambda: self._quoted(f"x String DEFAULT file('{self._file()}')"), lambda: "system.one", lambda: "{p:Identifier}",
            lambda: f"(SELECT {self._scalar()})", lambda: f"concat({self._quoted()}, '')", lambda: "x -> x",
        )  # fmt: skip
        return ", ".join(self._one(kinds)() for _ in range(self._rng.randrange(1, 5)))

    def _scalar(self) -> str:
        if self._rng.random() < 0.4:
            return f"file({self._quoted(self._file())})"
        return f"{self._name(_OUTSIDE_FUNCTIONS, self._words.functions)}({self._arguments()})"

    def _call(self) -> str:
        if self._rng.random() < 0.2:
            return f"file({self._quoted(self._file())}, LineAsString)"
        if self._rng.random() < 0.15:
            return f"url({self._quoted(self._url())}, CSV, 'x String')"
        if self._rng.random() < 0.1:
            return f"executable({self._quoted(self._targets.command)}, CSV, 'x String')"
        if self._rng.random() < 0.1:
            return f"remote('127.0.0.1:{self._targets.port}', system.one)"
        return f"{self._name(_OUTSIDE_TABLE_FUNCTIONS, self._words.table_functions)}({self._arguments()})"

    def _engine(self) -> str:
        name = self._name(_OUTSIDE_ENGINES, self._words.engines)
        tail = self._one(("", "", " PRIMARY KEY x", " ORDER BY x", f" SETTINGS disk = {self._disk_function()}"))
        return f"{name}({self._arguments()}){tail}" if self._rng.random() < 0.8 else f"{name}{tail}"

    def _disk_function(self) -> str:
        kind = self._one(("local", "web", "s3", "object_storage", "encrypted", "cache", "s3_plain"))
        return f"disk(type = {kind}, path = '{self._targets.folder}/', endpoint = {self._quoted(self._url())})"

    def _source(self) -> str:
        return str(self._one((
            f"EXECUTABLE(COMMAND {self._quoted(self._targets.command)} FORMAT CSV)",
            f"FILE(PATH {self._quoted(self._file())} FORMAT 'LineAsString')",
            f"HTTP(URL {self._quoted(self._url())} FORMAT 'CSV')",
            f"CLICKHOUSE(HOST '127.0.0.1' PORT {self._targets.port} TABLE 'x')",
            f"REDIS(HOST '127.0.0.1' PORT {self._targets.port})",
            f"EXECUTABLE_POOL(COMMAND {self._quoted(self._targets.command)} FORMAT CSV)",
            f"CLICKHOUSE(QUERY {self._quoted('SELECT ' + self._scalar())})",
            f"LIBRARY(PATH {self._quoted(self._file())})",
        )))  # fmt: skip

    def _fresh(self) -> str:
        return f"f{self._rng.randrange(10**6)}"

    def _select_scalar(self) -> str:
        return f"SELECT {self._scalar()}"

    def _select_from(self) -> str:
        source = self._one((self._call(), self._call(), self._quoted(), f"`{self._file()}`", f"\"{self._file()}\"",
                            "{p:Identifier}", f"default.`{self._file()}`", f"_boot.`{self._file()}`"))  # fmt: skip
        return f"SELECT * FROM {source}"

    def _join(self) -> str:
        kind = self._one((f"JOIN {self._call()} ON 1", f", {self._call()}", f"WHERE {self._scalar()} = 'x'",
                          f"UNION ALL SELECT * FROM {self._call()}", f"ORDER BY {self._scalar()}",
                          f"LIMIT length({self._scalar()})", f"SETTINGS {self._one(_SETTINGS)} = {self._quoted(self._value())}"))  # fmt: skip
        return f"SELECT * FROM numbers(1) {kind}"

    def _insert_function(self) -> str:
        return f"INSERT INTO {self._one(('FUNCTION', 'TABLE FUNCTION'))} {self._call()} {self._one(('VALUES (1)', 'SELECT 1'))}"

    def _insert_values(self) -> str:
        into = self._one(("probe", "FUNCTION null('x String')", "probe (x)"))
        return f"INSERT INTO {into} {self._one(('VALUES', 'FORMAT Values'))} ({self._scalar()}), ((SELECT * FROM {self._call()}))"

    def _insert_select(self) -> str:
        return str(self._one((
            f"INSERT INTO probe SELECT * FROM {self._call()}",
            f"INSERT INTO probe SELECT x FROM input('x String DEFAULT {self._scalar()}') FORMAT CSV\nx\n",
            f"INSERT INTO probe SELECT {self._scalar()}",
            f"WITH {self._scalar()} AS y INSERT INTO probe SELECT y",
        )))  # fmt: skip

    def _create_engine(self) -> str:
        sign = self._one((" = ", " ", "=", " =/**/"))
        return f"CREATE {self._one(('', 'TEMPORARY ', 'OR REPLACE '))}TABLE {self._fresh()} (x String) ENGINE{sign}{self._engine()}"

    def _create_as(self) -> str:
        return f"CREATE TABLE {self._fresh()} {self._one(('', 'ENGINE = Memory '))}AS {self._one(('', 'SELECT * FROM '))}{self._call()}"

    def _create_default(self) -> str:
        kind = self._one(("DEFAULT", "ALIAS", "MATERIALIZED", "TTL", "CODEC", "EPHEMERAL"))
        return f"CREATE TABLE {self._fresh()} (x String {kind} {self._scalar()}, y Int8) ENGINE = MergeTree ORDER BY y"

    def _create_view(self) -> str:
        kind = self._one(("VIEW", "MATERIALIZED VIEW", "LIVE VIEW", "WINDOW VIEW", "OR REPLACE VIEW"))
        return f"CREATE {kind} {self._fresh()} {self._one(('', 'TO probe ', 'ENGINE = Memory '))}AS SELECT * FROM {self._call()}"

    def _create_dictionary(self) -> str:
        return (
            f"{self._one(('CREATE', 'CREATE OR REPLACE', 'ATTACH'))} DICTIONARY {self._fresh()} (a UInt64, b String) "
            f"PRIMARY KEY a SOURCE({self._source()}) LAYOUT(FLAT()) LIFETIME(0)"
        )

    def _create_database(self) -> str:
        return f"{self._one(('CREATE', 'ATTACH'))} DATABASE {self._fresh()} ENGINE = {self._one(_DATABASES)}({self._arguments()})"

    def _disk(self) -> str:
        return f"CREATE TABLE {self._fresh()} (x Int8) ENGINE = MergeTree ORDER BY x SETTINGS disk = {self._disk_function()}"

    def _outfile(self) -> str:
        tail = self._one(("", " APPEND", " TRUNCATE", " AND STDOUT", " FORMAT CSV", " COMPRESSION 'gzip'"))
        return f"SELECT 1 INTO OUTFILE {self._quoted(self._out())}{tail}"

    def _infile(self) -> str:
        return f"INSERT INTO probe FROM INFILE {self._quoted(self._file())} {self._one(('', 'FORMAT CSV', 'FORMAT LineAsString'))}"

    def _backup(self) -> str:
        where = self._one((f"File({self._quoted(self._out())})", f"Disk('default', {self._quoted(self._out())})",
                           f"S3({self._quoted(self._url())})", "Memory('x')"))  # fmt: skip
        return str(
            self._one((f"BACKUP TABLE probe TO {where}", f"RESTORE TABLE probe FROM {where}", f"BACKUP ALL TO {where}"))
        )

    def _attach(self) -> str:
        return str(self._one((
            f"ATTACH TABLE {self._fresh()} FROM {self._quoted(self._targets.folder)} (x Int8) ENGINE = MergeTree ORDER BY x",
            f"ATTACH TABLE {self._fresh()} (x String) ENGINE = File(CSV, {self._quoted(self._file())})",
            f"UNDROP TABLE {self._fresh()}", f"COPY probe TO {self._quoted(self._out())}",
            f"DETACH TABLE probe{self._rng.randrange(3)}",
        )))  # fmt: skip

    def _alter(self) -> str:
        what = self._one((
            f"ADD COLUMN {self._fresh()} String DEFAULT {self._scalar()}", f"UPDATE x = {self._scalar()} WHERE 1",
            f"DELETE WHERE {self._scalar()} = ''", f"FETCH PARTITION 1 FROM {self._quoted()}", "FREEZE",
            f"MODIFY SETTING disk = {self._disk_function()}", "MOVE PARTITION tuple() TO DISK 'x'",
            f"MODIFY TTL y + INTERVAL 1 DAY TO DISK {self._quoted()}", f"MODIFY QUERY SELECT * FROM {self._call()}",
            f"FREEZE WITH NAME {self._quoted('../../../../' + self._targets.folder)}",
            f"ADD INDEX {self._fresh()} {self._scalar()} TYPE minmax", f"ATTACH PARTITION ALL FROM {self._call()}",
        ))  # fmt: skip
        return f"ALTER TABLE probe {what}"

    def _explain(self) -> str:
        kind = self._one(("", "AST", "SYNTAX", "PLAN", "PIPELINE", "ESTIMATE", "QUERY TREE", "TABLE OVERRIDE"))
        return f"EXPLAIN {kind} {self._one(self._frames[:9])()}"

    def _several(self) -> str:
        glue = self._one((";", " PARALLEL WITH ", ";\n", "; --\n", " ;\u3000", "\x00;", " UNION ALL ", " EXCEPT "))
        return f"{self._one(('SELECT 1', 'EXPLAIN AST SELECT 1', 'INSERT INTO probe VALUES (1)'))}{glue}{self._one(self._frames[:18])()}"

    def _structure(self) -> str:
        name = self._one(("null", "generateRandom", "values", "input", "format"))
        kind = self._one(("DEFAULT", "ALIAS", "MATERIALIZED"))
        if self._one((True, False)):
            return f"SELECT * FROM values({self._quoted('x String')}, ({self._scalar()}), {self._scalar()})"
        return f"{self._one(('DESCRIBE TABLE', 'SELECT * FROM'))} {name}({self._quoted(f'x String {kind} {self._scalar()}')})"

    def _format_data(self) -> str:
        data = self._quoted(f"({self._scalar()})")
        return f"SELECT * FROM format({self._one(_FORMATS)}, {self._one(('', self._quoted('x String') + ', '))}{data})"

    def _show(self) -> str:
        return str(self._one((
            "SHOW GRANTS", "SHOW ACCESS", "SHOW CREATE USER default", "SHOW USERS", "SHOW NAMED COLLECTIONS",
            f"SHOW TABLES FROM `{self._targets.folder}`", f"DESCRIBE TABLE {self._call()}", "SHOW CREATE DATABASE default",
            f"EXISTS TABLE `{self._file()}`", f"USE `{self._targets.folder}`", "SELECT * FROM system.users",
        )))  # fmt: skip

    def _system(self) -> str:
        what = self._one(("RELOAD CONFIG", "RELOAD DICTIONARIES", "SHUTDOWN", "KILL", "FLUSH LOGS", "RELOAD FUNCTIONS",
                          "START LISTEN HTTP", f"LOAD {self._quoted()}", "ENABLE FAILPOINT x", "DROP FILESYSTEM CACHE",
                          "RESTORE REPLICA x", "UNFREEZE WITH NAME 'x'"))  # fmt: skip
        return f"SYSTEM {what}"

    def _access(self) -> str:
        return str(self._one((
            "GRANT ALL ON *.* TO default", "CREATE USER o", "EXECUTE AS o SELECT 1", "REVOKE ALL ON *.* FROM default",
            "GRANT SOURCES ON *.* TO default WITH GRANT OPTION", "CREATE ROLE o", "SET ROLE NONE", "ALTER USER default",
            "SET DEFAULT ROLE ALL TO default", "KILL QUERY WHERE 1 ASYNC", "CREATE ROW POLICY o ON probe USING 1",
        )))  # fmt: skip

    def _function(self) -> str:
        return f"CREATE FUNCTION {self._fresh()} AS (x) -> {self._scalar()}"

    def _named_collection(self) -> str:
        return f"CREATE NAMED COLLECTION {self._fresh()} AS url = {self._quoted(self._url())}"

    def _prepared(self) -> str:
        return str(self._one(("SELECT {p:Identifier}('x')", "SELECT * FROM {p:Identifier}", "SELECT {p:String}",
                              f"SELECT * FROM {{p:Identifier}}({self._quoted(self._file())})")))  # fmt: skip

    def _example(self) -> str:
        return str(self._one(self._words.examples)) if self._words.examples else "SELECT 1"

    def _set(self) -> str:
        return f"SET {self._one(_SETTINGS)} = {self._quoted(self._value())}"

    def _heredoc(self) -> str:
        tag = self._one(("$'$", "$ $", '$"$', "$`$", "$a b$", "$--$", "$/*$", "$$"))
        return f"SELECT {tag} ' {tag}, {self._scalar()}, ' '"

    def _dialect(self) -> str:
        return f"SELECT 1 SETTINGS {self._one(_SETTINGS)} = {self._quoted(self._value())}"

    def _kql(self) -> str:
        return str(self._one((f"from {self._call()}", f"{self._call()} | take 1", "FROM numbers(1) |> SELECT 1",
                              f"FROM {self._call()} SELECT *")))  # fmt: skip

    def _pipe(self) -> str:
        return f"SELECT 1 |> {self._one(('JOIN', 'UNION ALL', 'EXTEND', 'WHERE'))} {self._scalar()}"

    def _stray(self) -> str:
        words = (
            "SELECT", "FROM", "INSERT", "INTO", "FUNCTION", "TABLE", "ENGINE", "=", "(", ")", ",", "'", "`", '"', "$",
            "CREATE", "VIEW", "AS", "WITH", "SOURCE", "SETTINGS",
        )  # fmt: skip
        parts = [str(self._one(words)) for _ in range(self._rng.randrange(3, 9))]
        parts.insert(self._rng.randrange(len(parts)), self._one((self._call, self._scalar))())
        return " ".join(parts)

    def _ext_structure(self) -> str:
        return str(self._one((
            f"a Int8); {self._one(self._frames[:12])(),}; SELECT (1", f"a String DEFAULT {self._scalar()}",
            f"a Int8) ENGINE = {self._engine()} AS SELECT (1", f"a String) AS SELECT {self._scalar()} --", "a Int8",
            f"a Int8, INDEX i {self._scalar()} TYPE minmax", f"a Enum8('{self._file()}' = 1)", "a Tuple(b Int8, c String)",
            f"a Int8 TTL {self._scalar()}", f"`a` AggregateFunction({self._name(_OUTSIDE_FUNCTIONS, ())}, String)",
        )))  # fmt: skip

    def _disguise(self, sql: str) -> str:
        out = []
        for letter in sql:
            if letter == " " and self._rng.random() < 0.25:
                out.append(str(self._one(_BLANKS)))
            elif letter == "(" and self._rng.random() < 0.15:
                out.append(f"{self._one(_BLANKS)}(")
            elif letter.isalpha() and self._rng.random() < 0.03:
                out.append(letter.swapcase())
            elif letter == "'" and self._rng.random() < 0.08:
                out.append(str(self._one(_QUOTES)[self._rng.randrange(2)]))
            else:
                out.append(letter)
        text = "".join(out)
        if self._rng.random() < 0.2:
            for name in ("file", "url", "executable", "remote", "EXECUTABLE", "File"):
                if f"{name}(" in text:
                    left, right = self._one(_QUOTES)
                    text = text.replace(f"{name}(", f"{left}{name}{right}(", 1)
                    break
        return text

    def _mutate(self, sql: str) -> str:
        at = self._rng.randrange(len(sql) + 1)
        kind = self._rng.randrange(4)
        if kind == 0:
            return (
                sql[:at]
                + chr(self._rng.choice((0, 7, 27, 36, 39, 34, 92, 96, 127, 133, 160, 8216, 8722, 12288)))
                + sql[at:]
            )
        if kind == 1:
            return sql[:at]
        if kind == 2:
            return sql[:at] + sql[at + 1 :]
        return sql[:at] + sql[max(0, at - 10) : at] + sql[at:]
