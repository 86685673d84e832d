"""Publishes the results of nccl-tests as samples of the participating hosts."""
