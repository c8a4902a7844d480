"""How does a server that speaks Kinesis start?

Kinesalite, which keeps its streams on disk and ends a shard that was split, as Amazon's does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from servers.packages import Debian, Npm, program
from servers.process import HOST, Command, Server

KINESALITE = Npm("kinesalite@3.3.3")
# Its own command line listens on all interfaces. A client that is killed in mid-request must not end it.
PROGRAM = """\
const [folder, host, port] = process.argv.slice(1)
const times = {createStreamMs: 50, deleteStreamMs: 50, updateStreamMs: 50}
const survive = () => process.on('uncaughtException', console.error)
require('kinesalite')({path: folder, shardLimit: 100, ...times}).listen(Number(port), host, survive)
"""


class Kinesis(Server):
    name = "kinesis"
    packages = (Debian("nodejs", "node"), KINESALITE)

    @property
    def how_to_connect(self) -> str:
        return f"{self.endpoint}, any key and secret, region {self.credentials['region_name']}"

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"

    @property
    def credentials(self) -> Mapping[str, str]:
        """For boto3: it asks for them, the server accepts any."""
        return {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}

    def commands(self) -> Sequence[Command]:
        modules = {"NODE_PATH": str(KINESALITE.folder / "node_modules")}
        return [Command([program("node"), "-e", PROGRAM, self.folder / "data", HOST, str(self.port)], modules)]
