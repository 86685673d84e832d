"""attribute: the fabric-wide stage. It finds the root cause, severity and blast radius of each episode."""
