"""What is handed to whoever runs a job?"""

from __future__ import annotations

import re
import unicodedata
import zlib
from dataclasses import dataclass, replace

from cutwater.config import JobOptions
from cutwater.graph.chaining import to_execution_graph
from cutwater.graph.guarantees import PathGuarantee
from cutwater.graph.model import ExecutionGraph, LogicalGraph
from cutwater.graph.rescaling import rescaled, with_key_groups


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job, ready to be pickled and sent.

    The job id names the job's folder on the storage: two runs with the same id are the same job.
    """

    name: str
    job_id: str
    logical: LogicalGraph
    options: JobOptions
    guarantees: tuple[PathGuarantee, ...]
    graph: ExecutionGraph

    @staticmethod
    def of(
        name: str, job_id: str, logical: LogicalGraph, options: JobOptions, guarantees: tuple[PathGuarantee, ...]
    ) -> JobPlan:
        graph = to_execution_graph(logical, chaining=options.chaining)
        return JobPlan(name, job_id, logical, options, guarantees, graph)

    def at(self, parallelism: int) -> JobPlan:
        """The same job with another parallelism; raises `ConfigurationError` if there are not so many key groups."""
        logical = rescaled(self.logical, parallelism)
        options = replace(self.options, parallelism=parallelism)
        return JobPlan.of(self.name, self.job_id, logical, options, self.guarantees)

    def with_key_groups(self, count: int) -> JobPlan:
        """The same job with so many key groups; raises `ConfigurationError` if it has more tasks than that."""
        logical = with_key_groups(self.logical, count)
        options = replace(self.options, max_parallelism=count)
        return JobPlan.of(self.name, self.job_id, logical, options, self.guarantees)


def job_id_of(name: str) -> str:
    """The name as lower-case letters, digits and dashes: "Word count!" → "word-count"."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    # A name of which nothing is left still needs an id of its own, the same one every time.
    return slug or f"job-{zlib.crc32(name.encode()):08x}"
