"""Publishes the results of nccl-tests as samples of the hosts that took part."""
