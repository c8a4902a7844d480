"""How does a server that speaks Azure's blob storage, and keeps its blobs when it is killed, start?

Azurite, Microsoft's own emulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from servers.packages import Debian, Npm, program
from servers.process import HOST, Command, Server

#: The newest that runs on the Node of Debian 12.
AZURITE = Npm("azurite@3.35.0")
CONTAINER = "cutwater-files"
ACCOUNT = "cutwater"
KEY = "bm90IGEgc2VjcmV0"  # "not a secret", in base64 as it has to be
# Azurite has all names of blobs in memory and writes them every 5 seconds: those of the last ones are lost when it is
# killed. Here they are on disk before a request is answered. Its own command line also makes no container.
PROGRAM = """\
const [folder, host, port, account, container] = process.argv.slice(1)
const {renameSync, writeFileSync} = require('fs')
const part = name => require('azurite/dist/src/blob/' + name).default
const BlobServer = part('BlobServer'), BlobConfiguration = part('BlobConfiguration')
const contents = [{locationId: 'Default', locationPath: folder + '/contents', maxConcurrency: 50}]
const places = [folder + '/blobs.json', folder + '/contents.json', contents]
const server = new BlobServer(new BlobConfiguration(host, Number(port), 60, ...places, false))

const save = ({db, lokiDBPath: path}) => {
  writeFileSync(path + '.new', db.serialize())
  renameSync(path + '.new', path)
}
const stores = [server.extentMetadataStore, server.metadataStore]
server.httpServer.prependListener('request', (request, response) => {
  if (request.method === 'GET' || request.method === 'HEAD') return
  const end = response.end
  response.end = (...rest) => {
    stores.forEach(save)
    return end.apply(response, rest)
  }
})

const properties = {
  etag: '"0"',
  lastModified: new Date(),
  leaseStatus: 'unlocked',
  leaseState: 'available',
  hasImmutabilityPolicy: false,
  hasLegalHold: false,
}
const isThere = error => { if (error.storageErrorCode !== 'ContainerAlreadyExists') throw error }
server.start().then(() => {
  stores.forEach(store => store.db.autosaveDisable())
  return server.metadataStore.createContainer(undefined, {accountName: account, name: container, properties})
}).catch(isThere).catch(error => { console.error(error); process.exit(1) })
"""


class Azurite(Server):
    name = "azurite"
    packages = (Debian("nodejs", "node"), AZURITE)

    @property
    def how_to_connect(self) -> str:
        return f"az://{CONTAINER} at {self.endpoint}, account {ACCOUNT!r}, key {KEY!r}"

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}/{ACCOUNT}"

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which clients find it."""
        return {
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
            "AZURE_ALLOW_HTTP": "true",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }

    def commands(self) -> Sequence[Command]:
        variables = {
            "NODE_PATH": str(AZURITE.folder / "node_modules"),
            "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}",
        }
        arguments = [self.folder, HOST, str(self.port), ACCOUNT, CONTAINER]
        return [Command([program("node"), "-e", PROGRAM, *arguments], variables)]

    def is_ready(self) -> bool:
        """A blob can be written: the container is there."""
        from obstore import exceptions, put
        from obstore.store import from_url

        settings: Any = {"endpoint": self.endpoint, "account_name": ACCOUNT, "account_key": KEY}
        once: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=1)}
        try:
            store = from_url(
                f"az://{CONTAINER}", config=settings, retry_config=once, client_options={"allow_http": True}
            )
            put(store, ".ready", b"")
        except (exceptions.BaseError, FileNotFoundError) as error:
            raise OSError(str(error)) from error
        return True
