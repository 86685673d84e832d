"""Measures pages, memory and ids of a noisy day, while `decide` is killed."""
