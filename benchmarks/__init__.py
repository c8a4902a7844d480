"""What do checkpoints and failures cost? Ratios within one run, on the machine at hand."""
