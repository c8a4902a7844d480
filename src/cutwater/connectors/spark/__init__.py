"""The ends of a job that Spark itself reads or writes."""
