"""Tests what the counters of InfiniBand mean, by generation and ASIC; the sheet's traps come first."""

import pytest

from collectors.ib.formats import plain
from collectors.ib.signals import QUANTUM, SWITCH_IB, PortKind, asic_of, speed, values_of
from streams.fabric.catalogue import Metric

M = Metric
NDR, EDR = PortKind(QUANTUM, 400e9), PortKind(SWITCH_IB, 100e9)


def converted(kind: PortKind, **values: str) -> dict[Metric, float]:
    """Return the metrics of a port."""
    return dict(values_of({plain(name): value for name, value in values.items()}, kind))


@pytest.mark.parametrize(
    "values",
    [
        {"PortXmitWait": "4294967295"},  # full after 0.69 s at NDR: unknown, not 0
        {"LinkDownedCounter": "255", "LinkErrorRecoveryCounter": "0xff"},
        {"PortXmitDiscards": "65535", "SymbolErrorCounter": "65535"},
        {"PortXmitDataExtended": str(2**64 - 1)},
        {"PortXmitDataExtended": "N/A", "PortXmitWaitExtended": "", "PortRcvPktsExtended": "NaN"},
        {"PortRcvErrors": "-1", "Raw_BER": "inf", "Effective_BER": "N/A", "Module_Temperature": "0C"},
        {"PortState": "7"},
        {"phy_effective_errors": "9", "PortFECUncorrectableBlockCounter": "9"},  # NDR repeats them (PLR): not lost
        {"LinkSpeedActive": "128", "LinkWidthActive": "2"},  # codes of a tool, no speed
    ],
    ids=str,
)
def test_what_means_nothing_is_absent(values: dict[str, str]) -> None:
    """A full, missing or foreign value is no value, and never 0."""
    assert converted(NDR, **values) == {}


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (NDR, {"PortXmitDataExtended": "10", "port_rcv_data_extended": "3"}, {M.TX_BYTES: 40, M.RX_BYTES: 12}),
        (NDR, {"PortRcvPktsExt": "7"}, {M.RX_PACKETS: 7}),
        (NDR, {"phy_symbol_errors": "5", "phy_effective_errors": "9"}, {M.UNCORRECTED_SYMBOLS: 5}),
        (EDR, {"phy_symbol_errors": "5", "phy_effective_errors": "9"}, {M.UNCORRECTED_SYMBOLS: 9}),
        (PortKind(QUANTUM), {"phy_symbol_errors": "5"}, {}),  # of a link of unknown generation
        (NDR, {"Raw_BER": "1E-9", "Effective_BER": "15E-255"}, {M.PRE_FEC_BER: 1e-9, M.POST_FEC_BER: 0.0}),
        (NDR, {"plr_xmit_retry_codes": "6", "plr_rcv_code_err": "6", "plr_rcv_uncorrectable_code": "1"},
         {M.PLR_TX_RETRIES: 6, M.PLR_RX_ERRORS: 6, M.PLR_RX_UNCORRECTABLE: 1}),
        (NDR, {"Sta": "ACT", "Module_Temperature": "47C"}, {M.OPER_UP: 1, M.MODULE_TEMPERATURE_C: 47}),
        (NDR, {"PortState": "2"}, {M.OPER_UP: 0}),  # INIT carries no data
        (NDR, {"LSA": "100", "LWA": "4x"}, {M.SPEED_BPS: 400e9}),
        (NDR, {"PortXmitWait": "5", "PortXmitWaitExtended": str(1 << 33)},
         {M.TX_WAIT_TICKS: 1 << 33, M.TX_WAIT_BYTES: 1 << 36}),
        (PortKind(None, 400e9), {"PortXmitWaitExtended": "5"}, {M.TX_WAIT_TICKS: 5}),  # an HCA: its tick is unknown
    ],
)  # fmt: skip
def test_a_counter_is_what_its_generation_counts(
    kind: PortKind, values: dict[str, str], expected: dict[Metric, float]
) -> None:
    """The errors that no correction recovers are the effective ones of EDR, and the symbol errors since HDR."""
    assert converted(kind, **values) == expected


@pytest.mark.parametrize(
    ("model", "kind", "ticks", "seconds", "share"),
    [("MQM9700", NDR, 37_500_000_000, 30, 0.20), ("MSB7800", EDR, 240_000_000, 10, 0.25)],
)
def test_waiting_is_a_share_of_time(model: str, kind: PortKind, ticks: int, seconds: float, share: float) -> None:
    """The bytes that were not sent, at the port's speed."""
    assert asic_of(model) == kind.asic
    waited = converted(kind, PortXmitWaitExtended=str(ticks))[M.TX_WAIT_BYTES]
    assert waited * 8 / (kind.speed_bps * seconds) == pytest.approx(share, rel=0.02)


def test_an_asic_is_known_by_model_or_device_id() -> None:
    """Unknown models have none."""
    assert [asic_of(name) for name in ("MQM8790", "Q3400-RA", "Quantum Mellanox Technologies")] == [QUANTUM] * 3
    assert [asic_of(name) for name in ("MSB7890", "MSX6036F", "SwitchIB Mellanox Technologies")] == [SWITCH_IB] * 3
    assert asic_of("", 54002) == QUANTUM and asic_of("", 53000) == SWITCH_IB
    assert asic_of("MT4129 ConnectX7   Mellanox Technologies", 4129) is None
    assert speed({"lsa": "EDR", "lwa": "1x"}) == (25e9, 1)
