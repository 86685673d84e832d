"""The host collector: reads a host's kernel log, PCIe links, GPUs and LLDP neighbors."""
