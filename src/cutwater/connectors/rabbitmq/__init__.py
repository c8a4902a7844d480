"""RabbitMQ: streams and queues as sources, exchanges as sinks."""
