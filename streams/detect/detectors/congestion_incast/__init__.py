"""congestion/incast."""
