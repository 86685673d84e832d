"""The wire format of Kafka: generated code, plain models, the codec between them, the topic registry, errors."""
