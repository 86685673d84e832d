"""Tickets of the repair desk: which remediations need a person's hands, and the ticket systems that get them."""
