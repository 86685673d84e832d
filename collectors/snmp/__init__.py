"""The SNMP collector: many devices in one process, by GETBULK, and what they tell of themselves by traps."""
