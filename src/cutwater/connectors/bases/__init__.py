"""What connectors are built from: clients of servers on threads of their own, and kinds of sinks."""
