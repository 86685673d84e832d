"""Carries out approved remediations: links by gNMI Set, hosts by Slurm or Kubernetes. Needs no code of the pipeline."""
