"""The fault suite: runs real processes under faults, and counts lost and duplicate messages."""
