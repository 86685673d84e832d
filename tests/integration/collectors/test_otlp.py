"""Tests the OTLP collector with real clients of gRPC and HTTP: what is read, what is answered, and who is refused."""

import gzip
import time

import pytest

from collectors.otlp.v1 import otlp_lite_pb2 as otlp
from streams.fabric.catalogue import Metric
from tests.fixtures.otlp_requests import Given, message
from tests.integration.collectors.otlp_clients import listening

SWP1 = {"interface": "swp1"}
OUT = "nvswitch_interface_if_out_octets"


async def test_values_of_cumulus_have_our_units_by_grpc() -> None:
    """`oper_state` 2 is down, 1e-254 is no bit error rate but 0, and the bias is in amperes."""
    channel = {"interface": "swp1", "channel": "1"}
    first_ns = time.time_ns() - 5_000_000_000
    async with listening() as now:
        for state, at_ns in ((2.0, first_ns), (1.0, first_ns + 1_000_000_000)):
            request = message(
                {
                    "nvswitch_interface_oper_state": [Given(state, SWP1, at_ns)],
                    "nvswitch_interface_phy_stats_raw_ber": [Given(1.4999999999999995e-254, SWP1, at_ns)],
                    "nvswitch_platform_transceiver_channel_tx_bias_current": [Given(0.00675, channel, at_ns)],
                }
            )
            assert await now.export(request) == otlp.ExportMetricsServiceResponse()
        await now.until(lambda: len(now.values(Metric.OPER_UP)) == 2)
        assert [value for _, value in now.values(Metric.OPER_UP)] == [0.0, 1.0]
        assert set(now.values(Metric.PRE_FEC_BER)) == {("swp1", 0.0)}
        assert [value for _, value in now.values(Metric.BIAS_MA, lane=0)] == pytest.approx([6.75, 6.75])


async def test_a_gauge_that_is_our_counter_is_published_as_it_is_by_http() -> None:
    """The catalogue decides what is a counter; a lower value is a reset, which `measure` detects."""
    async with listening() as now:
        at_ns = time.time_ns() - 10_000_000_000
        for number, value in enumerate((1000.0, 1500.0, 200.0)):
            body = message({OUT: [Given(value, SWP1, at_ns + number * 1_000_000_000)]}).SerializeToString()
            status, headers, answer = await now.post(body)
            assert (status, headers["Content-Type"], answer) == (200, "application/x-protobuf", b"")
        await now.until(lambda: len(now.values(Metric.TX_BYTES)) == 3)
        assert [value for _, value in now.values(Metric.TX_BYTES)] == [1000, 1500, 200]


async def test_a_point_without_a_time_is_rejected_and_the_others_are_stored() -> None:
    points = [Given(number, {"interface": f"swp{number}"}, 0 if number == 50 else None) for number in range(100)]
    async with listening() as now:
        answer = await now.export(message({OUT: points}))
        assert answer.partial_success.rejected_data_points == 1
        assert "time" in answer.partial_success.error_message
        await now.until(lambda: len(now.values(Metric.TX_BYTES)) == 99)


async def test_a_small_request_that_decompresses_to_more_than_the_limit_is_refused() -> None:
    bomb = gzip.compress(bytes(70 << 20))
    assert len(bomb) < 100 << 10
    async with listening() as now:
        status, _, answer = await now.post(bomb, encoding="gzip")
        assert status == 413
        assert otlp.Status.FromString(answer).code == 8
        assert (await now.post(message({OUT: [Given(1, SWP1)]}).SerializeToString()))[0] == 200
