"""Draws the terminal program of `railsight top` and `railsight demo`: fabric, findings, links, jobs."""
