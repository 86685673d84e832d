"""A simulated fabric: a seeded world, faults that carry their truth, and faces that devices would show."""
