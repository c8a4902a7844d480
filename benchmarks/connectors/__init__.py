"""How fast is a connector beside the client that it is built on? Ratios within one run, on one machine.

Reading order: `ratios` (what is compared), `cases` (what a connector is measured with), `kafka` and its neighbours (the
connectors), `jobs` (Cutwater's side), `counting` (from Kafka to Kafka beside the peers), `run` (the command line).
"""
