"""Exports the groups of hosts for schedulers: Slurm's topology.conf and topology.yaml, labels of Kubernetes, JSON."""
