"""The sinks that come with Cutwater: `cw.sinks.parquet(…)`, …"""

from __future__ import annotations

from cutwater.connectors.collect import collect
from cutwater.connectors.discard import discard
from cutwater.connectors.file_sink import files, json_lines, parquet, text
from cutwater.connectors.function import function
from cutwater.connectors.socket_sink import socket
from cutwater.connectors.stdout import stdout

__all__ = ["files", "text", "json_lines", "parquet", "stdout", "socket", "function", "collect", "discard"]
