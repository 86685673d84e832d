"""What every collector shares: the poll loop, the publisher, self-metrics."""
