"""HTTP: responses that never end, as source."""
