"""What the fabric is: ids, ports, links, rails, planes, inventory, and what each counter means."""
