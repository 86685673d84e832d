"""host/gpu-fault."""
