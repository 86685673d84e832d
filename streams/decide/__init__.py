"""From findings to remediations: the policy table and the guards, pure."""
