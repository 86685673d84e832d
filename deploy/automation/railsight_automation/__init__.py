"""Carries out approved remediations: links by gNMI Set, hosts by Slurm. Imports nothing of the pipeline."""
