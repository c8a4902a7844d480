"""Redis: streams as source and sink, keys as sink."""
