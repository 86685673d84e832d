"""telemetry/stale."""
