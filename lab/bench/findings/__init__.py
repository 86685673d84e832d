"""Measures pages, memory and ids over a noisy day during which `decide` is killed."""
