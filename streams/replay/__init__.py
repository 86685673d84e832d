"""The stages driven from history, and the score of what they found."""
