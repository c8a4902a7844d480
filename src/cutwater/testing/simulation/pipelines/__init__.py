"""Jobs that a seed draws from a grammar, each with its model; begin with `grammar.py`."""
