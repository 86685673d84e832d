"""congestion/pfc-storm."""
