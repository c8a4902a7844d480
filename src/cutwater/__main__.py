"""`python -m cutwater` is the command line."""

from cutwater.cli.main import app

app(prog_name="cutwater")
