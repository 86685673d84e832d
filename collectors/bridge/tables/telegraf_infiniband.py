"""Telegraf's `infiniband` input: the counters of `/sys/class/infiniband`, under the kernel's own names.

Tags `device` (the RDMA device) and `port`; with `gather_rdma` the hw_counters too. Names and units as in
Documentation/ABI/stable/sysfs-class-infiniband and the drivers' own tables.
"""

from collectors.bridge import values
from collectors.bridge.signals import Kind, Signal, counter
from streams.fabric.catalogue import Metric

_WORD = 4
"""`port_xmit_data` and `port_rcv_data` count units of 4 bytes (IBTA 16.1.3.5)."""

FIELDS: dict[str, Signal] = {
    name: counter(metric)
    for name, metric in {
        "port_rcv_packets": Metric.RX_PACKETS,
        "port_xmit_packets": Metric.TX_PACKETS,
        "port_rcv_discards": Metric.RX_DISCARDS,
        "port_xmit_discards": Metric.TX_DISCARDS,
        "port_rcv_errors": Metric.RX_ERRORS,
        "link_downed": Metric.LINK_DOWN_EVENTS,
        "symbol_error": Metric.RX_SYMBOL_ERRORS,
        "link_error_recovery": Metric.LINK_ERROR_RECOVERIES,
        "local_link_integrity_errors": Metric.LOCAL_LINK_INTEGRITY_ERRORS,
        "excessive_buffer_overrun_errors": Metric.EXCESSIVE_BUFFER_OVERRUNS,
        "port_rcv_remote_physical_errors": Metric.RX_REMOTE_PHYSICAL_ERRORS,
        "port_rcv_switch_relay_errors": Metric.RX_SWITCH_RELAY_ERRORS,
        "port_xmit_wait": Metric.TX_WAIT_TICKS,
        # hw_counters of mlx5
        "np_ecn_marked_roce_packets": Metric.ROCE_ECN_MARKED_PACKETS,
        "np_cnp_sent": Metric.CNP_SENT,
        "rp_cnp_handled": Metric.CNP_HANDLED,
        "rp_cnp_ignored": Metric.CNP_IGNORED,
        "out_of_sequence": Metric.OUT_OF_SEQUENCE,
        "packet_seq_err": Metric.PACKET_SEQUENCE_ERRORS,
        "implied_nak_seq_err": Metric.IMPLIED_NAK_SEQUENCE_ERRORS,
        "local_ack_timeout_err": Metric.LOCAL_ACK_TIMEOUTS,
        "req_transport_retries_exceeded": Metric.TRANSPORT_RETRIES_EXCEEDED,
        "rnr_nak_retry_err": Metric.RNR_NAK_RETRIES,
        "roce_adp_retrans": Metric.ADAPTIVE_RETRANSMITS,
        "roce_slow_restart": Metric.ROCE_SLOW_RESTARTS,
        "out_of_buffer": Metric.OUT_OF_BUFFER,
        "rx_icrc_encapsulated": Metric.RX_ICRC_ERRORS,
        "duplicate_request": Metric.DUPLICATE_REQUESTS,
        "req_cqe_error": Metric.REQUESTER_CQE_ERRORS,
        "resp_cqe_error": Metric.RESPONDER_CQE_ERRORS,
        # bnxt_re
        "rx_ecn_marked_pkts": Metric.ROCE_ECN_MARKED_PACKETS,
        "tx_cnp_pkts": Metric.CNP_SENT,
        "rx_cnp_pkts": Metric.CNP_HANDLED,
        "oos_drop_count": Metric.OUT_OF_SEQUENCE,
        "seq_err_naks_rcvd": Metric.PACKET_SEQUENCE_ERRORS,
        "to_retransmits": Metric.LOCAL_ACK_TIMEOUTS,
        "max_retry_exceeded": Metric.TRANSPORT_RETRIES_EXCEEDED,
        "rnr_naks_rcvd": Metric.RNR_NAK_RETRIES,
        "dup_req": Metric.DUPLICATE_REQUESTS,
        # irdma
        "RxECNMrkd": Metric.ROCE_ECN_MARKED_PACKETS,
        "cnpSent": Metric.CNP_SENT,
        "cnpHandled": Metric.CNP_HANDLED,
        "cnpIgnored": Metric.CNP_IGNORED,
        # ionic
        "rx_rdma_ecn_pkts": Metric.ROCE_ECN_MARKED_PACKETS,
        "tx_rdma_cnp_pkts": Metric.CNP_SENT,
        "rx_rdma_cnp_pkts": Metric.CNP_HANDLED,
        "resp_rx_outouf_seq": Metric.OUT_OF_SEQUENCE,
        "req_rx_pkt_seq_err": Metric.PACKET_SEQUENCE_ERRORS,
        "tx_rdma_ack_timeout": Metric.LOCAL_ACK_TIMEOUTS,
        "req_tx_retry_excd_err": Metric.TRANSPORT_RETRIES_EXCEEDED,
        "req_rx_rnr_retry_err": Metric.RNR_NAK_RETRIES,
    }.items()
} | {
    "port_rcv_data": Signal(Kind.VALUE, Metric.RX_BYTES, values.times(_WORD)),
    "port_xmit_data": Signal(Kind.VALUE, Metric.TX_BYTES, values.times(_WORD)),
}

DEVICE_KEYS = ("host",)
FIRST_PORT = "1"
"""A device's first port goes by the device's name alone: that is what a device of one port is called everywhere."""
