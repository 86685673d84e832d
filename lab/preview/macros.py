"""Replaces macros and variables as Grafana and its ClickHouse data source do, as far as the dashboards use them.

A macro or variable that is not known here raises: a board must not rely on what no test expands.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_CALLS = {
    "timeFilter": "{0} >= toDateTime({from_s}) AND {0} <= toDateTime({to_s})",
    "adHocFilters": "additional_table_filters={{}}",
    "timeInterval": "toStartOfInterval(toDateTime({0}), INTERVAL {interval_s} second)",
}
_NAMES = {"fromTime": "toDateTime({from_s})", "toTime": "toDateTime({to_s})", "interval_s": "{interval_s}"}
_CALL = re.compile(r"\$__(\w+)\(([^()]*)\)")
_NAME = re.compile(r"\$__(\w+)")
_VARIABLE = re.compile(r"\$\{(\w+):(\w+)\}")


@dataclass(frozen=True)
class View:
    """The choices on the dashboard: Unix seconds, the width of a bucket, and the values of each variable."""

    from_s: int
    to_s: int
    interval_s: int
    variables: Mapping[str, Sequence[str]]

    def expand(self, sql: str) -> str:
        """Return the query as ClickHouse receives it; raise LookupError for an unknown macro or variable."""
        sql = _VARIABLE.sub(self._variable, sql)
        if "${" in sql:
            raise LookupError(f"a variable without a format: {sql}")
        sql = _CALL.sub(lambda found: self._filled(_CALLS, found[1], found[2]), sql)
        return _NAME.sub(lambda found: self._filled(_NAMES, found[1]), sql)

    def _filled(self, known: Mapping[str, str], name: str, *arguments: str) -> str:
        return known[name].format(*arguments, from_s=self.from_s, to_s=self.to_s, interval_s=self.interval_s)

    def _variable(self, found: re.Match[str]) -> str:
        name, form = found.groups()
        values = self.variables[name]
        if form == "singlequote":
            escaped = [value.replace("'", "\\'") for value in values]
        elif form == "sqlstring":
            escaped = [value.replace("'", "''") for value in values]
        else:
            raise LookupError(f"the format {form} of {name}")
        return ",".join(f"'{value}'" for value in escaped)
