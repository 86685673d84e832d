"""What a host says of itself: its kernel log, its PCIe links, its GPUs, its neighbours."""
