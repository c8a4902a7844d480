"""How does Prometheus start? What it scrapes is told to it while it runs, by a file."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from servers.packages import Debian, program
from servers.process import HOST, Command, Server


class Prometheus(Server):
    name = "prometheus"
    packages = (Debian("prometheus", "prometheus"),)

    @property
    def how_to_connect(self) -> str:
        return f"http://{self.address}"

    def prepare(self) -> None:
        (self.folder / "token").write_text("none yet")
        (self.folder / "targets.json").write_text("[]")
        scraped = {
            "job_name": "cutwater",
            "scrape_interval": "500ms",
            "scrape_timeout": "500ms",
            "authorization": {"credentials_file": str(self.folder / "token")},
            "file_sd_configs": [{"files": [str(self.folder / "targets.json")], "refresh_interval": "1s"}],
        }
        (self.folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scraped]}))  # JSON is YAML

    def commands(self) -> Sequence[Command]:
        settings = {
            "config.file": str(self.folder / "prometheus.yml"),
            "storage.tsdb.path": str(self.folder / "data"),
            "web.listen-address": f"{HOST}:{self.port}",
        }
        return [Command([program("prometheus"), *(f"--{name}={value}" for name, value in settings.items())])]

    def is_ready(self) -> bool:
        with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=1) as answer:
            return bool(answer.status == 200)

    def scrape(self, address: str, token: str) -> None:
        """From now on, with this token."""
        (self.folder / "token").write_text(token)
        (self.folder / "targets.json").write_text(json.dumps([{"targets": [address]}]))

    def query(self, expression: str) -> list[dict[str, Any]]:
        with urllib.request.urlopen(
            f"http://{self.address}/api/v1/query?query={quote(expression)}", timeout=10
        ) as answer:
            found: list[dict[str, Any]] = json.loads(answer.read())["data"]["result"]
        return found
