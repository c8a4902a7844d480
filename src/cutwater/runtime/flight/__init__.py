"""How do slots and coordinator talk over a network? With Arrow Flight.

Importing these modules imports `pyarrow.flight` but starts no gRPC: that happens when the first server or client is
made, which must be after Spark's fork.
"""
