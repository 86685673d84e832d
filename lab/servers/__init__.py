"""Serves the simulated fabric by the protocols of its devices: gNMI, SNMP, sysfs trees and kernel logs."""
