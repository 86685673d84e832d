"""congestion/imbalance."""
