"""What a host's kernel shows of its NICs: which ports there are, what they are called and are for, what counters mean.

Shared by whoever reads a host (`nic`, `host`) or hears of one from others (`bridge`, of the counters' names).
"""
