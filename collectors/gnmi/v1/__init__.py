"""Generated from proto/collectors/gnmi/v1; see proto/generate.py."""
