"""Which real servers can the tests and a developer have, and how do they start?

A tool for developers: not part of the wheel. Each server has a temporary folder and free ports of 127.0.0.1 of its own.
`python -m servers.install` installs what is missing, `python -m servers kafka postgres` starts servers until Ctrl-C,
and tests/services has a fixture for each.
"""
