"""The NIC collector: what a host's own network ports say, from sysfs and ethtool, whatever the vendor."""
