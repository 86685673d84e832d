"""congestion/collapse."""
