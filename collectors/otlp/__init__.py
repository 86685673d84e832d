"""Receives metrics that devices and relays export by OTLP, and reports those that its tables know as samples."""
