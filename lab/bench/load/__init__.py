"""Generates the load of `railsight bench pipeline`: reads every device of a fabric on time, with faults and truth."""
