"""Why is a job slow, or not healthy? A status in, findings out: no clock, no I/O."""
