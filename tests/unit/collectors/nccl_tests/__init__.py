"""Tests of the collector of nccl-tests."""
