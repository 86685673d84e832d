"""The NIC collector: reads a host's own network ports from sysfs and ethtool, for any vendor."""
