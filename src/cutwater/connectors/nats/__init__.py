"""NATS JetStream: streams as source and sink."""
