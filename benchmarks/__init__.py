"""How fast, how late, how big, and what do checkpoints and failures cost? Ratios within one run, on one machine.

Reading order: `workloads` (what is asked of every system), `data` (the rows), `contract` (what a measured process is
told and what it says), `subjects` (runs one system in a fresh process), `run` and `peers_run` (the command lines).
"""
