"""The fault suite: real processes under faults, and a reader that counts what was lost or stored twice."""
