"""Tables of PostgreSQL, and their changes."""
