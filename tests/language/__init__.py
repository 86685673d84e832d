"""The check of the project's language: banned words in names and prose, and first lines of docstrings."""
