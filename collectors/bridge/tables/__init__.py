"""The mapping of a source's names: one file of facts for each format and input."""
