"""The fabric-wide stage: finds the root cause, severity and blast radius of each episode."""
