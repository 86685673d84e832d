"""Generated from proto/collectors/dialout/v1; see proto/generate.py."""
