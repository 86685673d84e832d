"""The bridge: what gnmic or Telegraf already write to Kafka, as the samples and events of our own collectors."""
