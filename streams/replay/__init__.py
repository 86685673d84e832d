"""Runs the stages over recorded or stored messages, and scores their findings."""
