"""The fabric model: ids, ports, links, rails, planes, inventory, and the catalogue of metrics."""
