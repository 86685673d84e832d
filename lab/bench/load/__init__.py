"""The load generator of `railsight bench pipeline`: every device of a fabric, read on time, with faults and truth."""
