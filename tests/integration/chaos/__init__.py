"""The fault suite on real servers."""
