"""Publishes which job runs on which hosts, as schedulers report it: Slurm and Kubernetes."""
