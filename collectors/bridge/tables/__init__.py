"""What a peer's names are to us: one file of facts for each format and input."""
