"""Topics of Apache Kafka, read and written exactly once."""
