"""Generated from proto/collectors/otlp/v1; see proto/generate.py."""
