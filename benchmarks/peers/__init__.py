"""The other systems on the same work, each in a virtual environment and a process of its own.

Every file here is a program: settings in, `RESULT` out (see `benchmarks.contract`). Each system gets its best reasonable
set-up, which its file states.
"""
