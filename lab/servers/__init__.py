"""The protocol servers of the simulated fabric: gNMI, SNMP, sysfs trees and kernel logs that devices would show."""
