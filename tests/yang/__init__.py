"""The check that the paths of the gNMI profiles are paths of published YANG models."""
