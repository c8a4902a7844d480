"""Apache Cassandra: tables as sink."""
