"""What reads devices and writes samples, events, facts and status to Kafka."""
