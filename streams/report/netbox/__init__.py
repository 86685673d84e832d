"""Converts the JSON of NetBox's REST API to an inventory and back."""
