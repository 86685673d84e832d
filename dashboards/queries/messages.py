"""Builds the queries for messages of devices: a short range is read by message, a long range by the hour.

An hour of arrival is read from sample_messages_1h if it has the hour, else from sample_messages: the newest hour and
the hours before the first rollup are not rolled up. From the hour in which a long range begins, only the minutes in the
range count, and the corresponding share of its rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

from dashboards.queries.query import OBSERVED_S

MESSAGES_UP_TO_S = 12 * 3600
"""The longest range that is read by message: 12 h of the largest fabric have 89 million messages."""
LONG = f"(dateDiff('second', $__fromTime, $__toTime) > {MESSAGES_UP_TO_S})"
_FIRST = "toStartOfHour($__fromTime, 'UTC')"
_LAST = "toStartOfHour($__toTime, 'UTC')"
_AFTER = f"{_LAST} + INTERVAL 2 HOUR"
"""Messages of the range that arrived after this time are read only from the rollup, if there is one."""
# `rolled` has the hours of the range in the rollup; the hour of the range's end is read by message. The rollup ends at
# `until`. `incomplete_days` are days with a missing hour; their partitions are searched for its messages.
_HOURS = f"""(
        SELECT groupUniqArray(arrived_hour) FROM sample_messages_1h
        WHERE {LONG} AND arrived_at >= {_FIRST} AND arrived_at < {_LAST}
    ) AS rolled, arrayMax(arrayPushBack(rolled, toDateTime(0, 'UTC'))) + INTERVAL 1 HOUR AS until,
    arrayMap(one -> toDate(toDateTime(one, 'UTC')), arrayFilter(
        one -> NOT has(rolled, toDateTime(one, 'UTC')),
        range(toUnixTimestamp({_FIRST}), greatest(toUnixTimestamp({_FIRST}), toUnixTimestamp(until)), 3600)
    )) AS incomplete_days"""
_NOT_ROLLED = f"""(NOT {LONG} OR (arrived_at < {_AFTER} OR empty(rolled)) AND (
        arrived_at >= until OR notEmpty(incomplete_days)
        AND toDate(arrived_at) IN incomplete_days AND toStartOfHour(arrived_at) NOT IN rolled
    ))"""
_BY_HOUR = f"{LONG} AND arrived_at >= $__fromTime AND arrived_hour >= {_FIRST}"


class Times(NamedTuple):
    """The conditions of a range: for messages, and for hourly rows."""

    messages: str
    hours: str


_BEFORE = "arrived_hour < until"
_KNOWN = f"({_BEFORE} OR arrived_hour >= {_AFTER})"
ARRIVED = Times("$__timeFilter(arrived_at)", _BEFORE)
"""Messages that arrived in the range."""
SAMPLED = Times(
    "$__timeFilter(sampled_at) AND arrived_at >= $__fromTime",
    f"{_KNOWN} AND last_sampled_at >= $__fromTime AND bucket <= $__toTime",
)
"""Messages that were sampled in the range."""
LATEST = Times("arrived_at >= $__fromTime AND sampled_at <= $__toTime", f"{_KNOWN} AND bucket <= $__toTime")
"""Messages that arrived after the range's begin and were sampled before its end, for the newest one of each device."""

_SHARE = "least(1, dateDiff('second', $__fromTime, arrived_hour + INTERVAL 1 HOUR) / 3600)"
# Value -> the expressions for a message and for an hourly row.
_VALUES = {
    "device": ("device", "device"),
    "source": ("source", "source"),
    "collector": ("collector", "collector"),
    "runs": ("[collector_run]", "runs"),
    "sent": ("rows", f"rows * {_SHARE}"),
    "delay_ms": ("toFloat64(dateDiff('millisecond', sampled_at, arrived_at))", "1000 * delay_p99_s"),
    "newest": ("sampled_at", "least(last_sampled_at, toDateTime64($__toTime, 9, 'UTC'))"),
    "arrived": ("arrived_at", "arrived_at"),
    "at": ("arrived_at", "toDateTime64(arrived_hour, 3, 'UTC')"),
    "width_s": ("$__interval_s", "greatest($__interval_s, 3600)"),
}


def messages(values: Sequence[str], times: Times, where: str = "1") -> str:
    """Return a subquery of messages with these values; a row is one message, or a device's messages of one hour.

    In an hourly row, `sent` is the number of rows in the range, `delay_ms` the 99th percentile, `newest` and `arrived`
    the newest times, `at` the begin of the hour of arrival, and `width_s` the seconds per point of a chart.
    """
    one, rolled = (", ".join(f"{_VALUES[value][form]} AS {value}" for value in values) for form in (0, 1))
    return f"""(
    WITH {_HOURS}
    SELECT {one} FROM sample_messages WHERE {times.messages} AND {_NOT_ROLLED} AND {where}
    UNION ALL SELECT {rolled} FROM sample_messages_1h WHERE {_BY_HOUR} AND {times.hours} AND {where}
)"""


_FIRST_S = f"toUnixTimestamp({_FIRST})"
FIRST_MINUTE = f"intDiv({_FIRST_S}, 60)"
"""The minute since 1970 of the lowest bit of the first word of minutes()."""


def _words(where: str, *values: str) -> str:
    """Return the minutes with a reading of each device, in hours without a rollup: device, hour, word."""
    listed = "".join(f", {value}" for value in values)
    return f"""SELECT device, toUnixTimestamp(toStartOfHour(sampled_at)) AS hour,
                groupBitOr(bitShiftLeft(toUInt64(1), toMinute(sampled_at))) AS word{listed}
            FROM sample_messages WHERE {SAMPLED.messages} AND {_NOT_ROLLED} AND {where} GROUP BY device, hour"""


def minutes(where: str) -> str:
    """Return a subquery of the minutes in which devices were read: device, words, newest.

    `words` has an integer for each hour, beginning with the range's first hour, and a bit for each minute.
    """
    # Each source, collector, hour and delay in hours has one hourly row, so the rows need no grouping by hour.
    return f"""(
    WITH {_HOURS}
    SELECT device, groupBitOrForEach(words) AS words, max(last) AS newest FROM (
        SELECT device, groupArrayInsertAt(word, toUInt32(intDiv(hour - {_FIRST_S}, 3600))) AS words, max(last) AS last
        FROM (
            {_words(where, "max(sampled_at) AS last")}
        ) GROUP BY device
        UNION ALL SELECT device,
            groupArrayInsertAt(minutes, toUInt32(intDiv(toUnixTimestamp(bucket) - {_FIRST_S}, 3600))) AS words,
            least(max(last_sampled_at), toDateTime64($__toTime, 9, 'UTC')) AS last
        FROM sample_messages_1h WHERE {_BY_HOUR} AND {SAMPLED.hours} AND {where}
        GROUP BY device, source, row_kind, collector, arrived_hour - bucket
    ) GROUP BY device
)"""


def reported(places: str, where: str = "1") -> str:
    """Return a subquery of the times in which devices were read, for states_over_time(): place, begin, end.

    `places` has the device and its place. In a long range, observed times are whole minutes.
    """
    whole_hour = 2**60 - 1
    return f"""
        SELECT DISTINCT place, slot AS begin, begin + {OBSERVED_S - 1} AS end FROM (
            SELECT DISTINCT device, intDiv(toUnixTimestamp(sampled_at), step) * step AS slot FROM sample_messages
            WHERE NOT {LONG} AND {SAMPLED.messages} AND {where}
        ) AS sampled INNER JOIN ({places}) AS places USING device
        UNION ALL SELECT place, hour + 60 * part.1 AS begin, begin + 60 * part.2 - 1 AS end FROM (
            SELECT place, hour, arrayJoin(if(
                word = {whole_hour}, [(toUInt64(0), toUInt64(60))],
                arrayMap(one -> (one, toUInt64(1)), bitPositionsToArray(word))
            )) AS part
            FROM (
                SELECT place, hour, groupBitOr(word) AS word FROM (
                    WITH {_HOURS}
                    {_words(f"{LONG} AND {where}")}
                    UNION ALL SELECT device, toUnixTimestamp(bucket) AS hour, minutes AS word
                    FROM sample_messages_1h WHERE {_BY_HOUR} AND {SAMPLED.hours} AND {where}
                ) AS sampled INNER JOIN ({places}) AS places USING device GROUP BY place, hour
            )
        ) WHERE end >= toUnixTimestamp($__fromTime)"""


_NEWEST_HOUR = f"(SELECT max(arrived_at) FROM sample_messages_1h WHERE {LONG} AND arrived_at >= $__fromTime)"
NEWEST_ARRIVAL = f"""SELECT max(arrived_at) AS newest FROM sample_messages
    WHERE arrived_at >= greatest($__fromTime, assumeNotNull({_NEWEST_HOUR}))"""
"""The newest arrival after the range's begin, even after its end; reads only rows from the newest hour on."""
