"""The Debian package of the collectors for a GPU host."""
