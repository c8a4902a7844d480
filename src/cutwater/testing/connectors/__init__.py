"""Does a source or sink keep what it promises when slots, drivers and servers are killed?

    class Orders(SinkSubject):
        def sink(self): return my_sink(...)
        def received(self): return [row["n"] for row in read_the_server()]

    print(check_sink(Orders()))

Real jobs on an embedded Spark, with numbered records and real kills. See docs/writing-connectors.md.
"""

from cutwater.testing.connectors.checking import check_pair, check_sink, check_source
from cutwater.testing.connectors.faults import ALL, Fault
from cutwater.testing.connectors.reports import GuaranteeBroken, Report, TrialReport
from cutwater.testing.connectors.subjects import Server, SinkSubject, SourceSubject

__all__ = [
    "ALL",
    "Fault",
    "GuaranteeBroken",
    "Report",
    "Server",
    "SinkSubject",
    "SourceSubject",
    "TrialReport",
    "check_pair",
    "check_sink",
    "check_source",
]
