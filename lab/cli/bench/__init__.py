"""Subcommands of `railsight bench`: each parses its options and calls `lab.bench`."""
