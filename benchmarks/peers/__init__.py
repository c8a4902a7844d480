"""The other systems on the same work, each in a virtual environment and a process of its own.

Every file here is a program: settings in, `RESULT` out (see `benchmarks.contract`). Each system gets the best
reasonable set-up that we know, which its file states. Where trials didn't decide, both are measured.
"""
