"""The groups of hosts as schedulers read them: Slurm's topology.conf and topology.yaml, labels of Kubernetes, JSON."""
