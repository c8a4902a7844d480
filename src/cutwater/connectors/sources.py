"""The sources that come with Cutwater: `cw.sources.files(…)`, …"""

from __future__ import annotations

from cutwater.connectors.collection import collection
from cutwater.connectors.file_source import files
from cutwater.connectors.generator import generator
from cutwater.connectors.socket_source import socket

__all__ = ["collection", "generator", "files", "socket"]
