import re
import time

from tests.tables import each_row


async def test_tells_the_time_in_utc(call):
    text = await call("date_time")
    told = re.fullmatch(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC \(unix (\d+)\)", text)
    assert told
    assert time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(int(told[2]))) == told[1]


@each_row(
    ("arguments", "answer"),
    [
        ({"timestamp": 1795236238}, "2026-11-21 04:43:58 UTC (unix 1795236238)"),
        ({"timestamp": -1}, "1969-12-31 23:59:59 UTC (unix -1)"),
        ({"timestamp": 0.9}, "1970-01-01 00:00:00 UTC (unix 0)"),
        ({"timestamp": -0.5}, "1969-12-31 23:59:59 UTC (unix -1)"),
        ({"timestamp": "86400"}, "1970-01-02 00:00:00 UTC (unix 86400)"),
        ({"timestamp": 0, "format": "%Y/%m/%d"}, "1970/01/01"),
        ({"timestamp": 0, "format": "%s"}, "1 value\n0"),
        ({"timestamp": 0, "format": "%%s %Z"}, "%s UTC"),
        ({"timestamp": -62135596800}, "0001-01-01 00:00:00 UTC (unix -62135596800)"),
        ({"timestamp": 253402300799}, "9999-12-31 23:59:59 UTC (unix 253402300799)"),
    ],
)
async def test_tells_a_moment(call, arguments, answer):
    assert await call("date_time", **arguments) == answer


@each_row("timestamp", [1e300, 253402300800, -1e18, "nan", "inf"])
async def test_a_moment_out_of_range_is_bad(call, timestamp):
    assert await call.code("date_time", timestamp=timestamp) == "bad_timestamp"


async def test_milliseconds_are_answered_with_the_unit_that_is_meant(call):
    answer = await call("date_time", timestamp=1795236238000)
    assert answer["hint"] == "it is in seconds, and years 1 to 9999 can be told"


@each_row("format", ["x" * 201, "a\nb", "\x00", "\ud800"])
async def test_a_format_is_short_and_printable(call, format):
    assert await call.code("date_time", format=format) == "invalid_args"


@each_row(
    ("arguments", "answer"),
    [
        ({"timestamp": 0, "zone": "UTC"}, "1970-01-01 00:00:00 UTC (unix 0)"),
        ({"timestamp": 0, "zone": "+05:30"}, "1970-01-01 05:30:00 +05:30 +05:30 (unix 0)"),
        ({"timestamp": 0, "zone": "-0330", "format": "%F %T %z"}, "1969-12-31 20:30:00 -0330"),
        (
            {"timestamp": 1782864000, "zone": "Europe/Berlin"},
            "2026-07-01 02:00:00 +02:00 Europe/Berlin (unix 1782864000)",
        ),
        (
            {"timestamp": 1768435200, "zone": "Europe/Berlin"},
            "2026-01-15 01:00:00 +01:00 Europe/Berlin (unix 1768435200)",
        ),
        ({"time": "2026-11-21T04:43:58Z"}, "2026-11-21 04:43:58 UTC (unix 1795236238)"),
        ({"time": "2026-11-21T05:43:58+01:00"}, "2026-11-21 04:43:58 UTC (unix 1795236238)"),
        ({"time": "2026-07-01 02:00", "zone": "Europe/Berlin", "format": "%s"}, "1 value\n1782864000"),
        ({"time": "2026-11-21"}, "2026-11-21 00:00:00 UTC (unix 1795219200)"),
        ({"timestamp": 0, "time": "+3d"}, "1970-01-04 00:00:00 UTC (unix 259200)"),
        ({"timestamp": 0, "time": "+1 hour"}, "1970-01-01 01:00:00 UTC (unix 3600)"),
        ({"timestamp": 0, "time": "-90 min"}, "1969-12-31 22:30:00 UTC (unix -5400)"),
        ({"timestamp": 0, "time": "+ 2 weeks", "zone": ""}, "1970-01-15 00:00:00 UTC (unix 1209600)"),
    ],
)
async def test_zones_iso_texts_and_relative_times_are_understood(call, arguments, answer):
    assert await call("date_time", **arguments) == answer


@each_row(
    ("arguments", "code"),
    [
        ({"zone": "Nowhere/Town"}, "invalid_args"),
        ({"zone": "../../etc/passwd"}, "invalid_args"),
        ({"zone": "/etc/passwd"}, "invalid_args"),
        ({"zone": "Europe"}, "invalid_args"),
        ({"zone": "+25:00"}, "invalid_args"),
        ({"zone": "x" * 65}, "invalid_args"),
        ({"time": "yesterday"}, "bad_timestamp"),
        ({"time": "+1 month"}, "bad_timestamp"),
        ({"time": "+1y"}, "bad_timestamp"),
        ({"time": "2026-13-01"}, "bad_timestamp"),
        ({"time": "+999999999w"}, "bad_timestamp"),
        ({"time": "9999-12-31T23:59:59-10:00"}, "bad_timestamp"),
        ({"timestamp": 253402300799, "zone": "+01:00"}, "bad_timestamp"),
    ],
)
async def test_what_means_no_moment_is_refused(call, arguments, code):
    assert await call.code("date_time", **arguments) == code
