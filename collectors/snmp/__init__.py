"""The SNMP collector: polls many devices in one process by GETBULK, and receives their traps."""
