"""Amazon Kinesis: streams as source and sink."""
