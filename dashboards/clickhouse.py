"""Models Grafana's ClickHouse data source, which the dashboard library lacks."""

from grafana_foundation_sdk.cog import builder, variants
from grafana_foundation_sdk.models import dashboard

from dashboards.queries.query import Query

PLUGIN = "grafana-clickhouse-datasource"
PLUGIN_VERSION = "4.14.0"
SOURCE = dashboard.DataSourceRef(type_val=PLUGIN, uid="${datasource}")

# The plugin's numbers for its formats.
_SERIES, _TABLE = 0, 1


class _Target(variants.Dataquery):
    """One query as the plugin stores it."""

    def __init__(self, query: Query, ref_id: str) -> None:
        self._query = query
        self._ref_id = ref_id

    def to_json(self) -> dict[str, object]:
        return {
            "datasource": SOURCE.to_json(),
            "editorType": "sql",
            "format": _SERIES if self._query.series else _TABLE,
            "pluginVersion": PLUGIN_VERSION,
            "queryType": "timeseries" if self._query.series else "table",
            "rawSql": self._query.sql,
            "refId": self._ref_id,
        }


class Target(builder.Builder[variants.Dataquery]):
    """Builds the target of one query."""

    def __init__(self, query: Query, ref_id: str = "A") -> None:
        self._target = _Target(query, ref_id)

    def build(self) -> _Target:
        """Return the target for a panel."""
        return self._target
