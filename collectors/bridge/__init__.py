"""The bridge: converts what gnmic or Telegraf write to Kafka to samples and events."""
