"""gNMI: subscribe (I/O), parse (pure), and the collector that composes them."""
