"""host/pcie-degraded."""
