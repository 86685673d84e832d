"""Evidence that several detectors share: histories of links and windows, spells, episodes, deadlines."""
