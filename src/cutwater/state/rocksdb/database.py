"""How is RocksDB opened, cut to a range of key groups, filled and frozen?

There is no write-ahead log: what survives a crash is the snapshots, not this folder. All databases of a slot share one
budget of memory.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from functools import lru_cache

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    SstFileWriter,
    UniversalCompactOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from cutwater.state.rocksdb.encoding import group_start

#: Of the budget; the rest are blocks that were read.
MEMTABLE_SHARE = 0.4
MEMTABLE_BYTES_MAX = 64 << 20
SORTED_RUNS_MAX = 12
"""Fewer are quicker to read; more are rewritten less often, and every file that is rewritten is uploaded again."""
SPACE_AMPLIFICATION_PERCENT = 100
BLOOM_BITS = 10
METADATA_BLOCK_BYTES = 4_096
FILE_BYTES = 16 << 20
BACKGROUND_JOBS = 2
MANIFEST_BYTES_MAX = 1 << 20
FILL_BATCH_ENTRIES = 4_096


class Database:
    """A folder with RocksDB in it. By the loop's thread only, but for what `freeze` gives."""

    def __init__(self, folder: str, *, memory_bytes: int) -> None:
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.entries = Rdict(folder, _options(memory_bytes))
        without_log = WriteOptions()
        without_log.disable_wal = True  # type: ignore[method-assign,assignment]
        self.entries.set_write_options(without_log)
        self._without_log = without_log

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All entries from one key up to another, in order, as they are now."""
        until = ReadOptions()
        until.set_iterate_upper_bound(end)
        iterator = self.entries.iter(until)
        iterator.seek(start)
        while iterator.valid():
            yield iterator.key(), iterator.value()
            iterator.next()

    def delete_range(self, start: bytes, end: bytes) -> None:
        self.entries.delete_range(start, end, self._without_log)

    def fill(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Writes entries in any order."""
        batch = WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
            if len(batch) >= FILL_BATCH_ENTRIES:
                self.entries.write(batch, self._without_log)
                batch = WriteBatch(raw_mode=True)
        self.entries.write(batch, self._without_log)

    def clip(self, groups: range, max_parallelism: int) -> None:
        """Drops all groups but these: two marks, whatever the number of keys."""
        if groups.start > 0:
            self.delete_range(group_start(0), group_start(groups.start))
        if groups.stop < max_parallelism:
            self.delete_range(group_start(groups.stop), group_start(max_parallelism))

    def take_in(self, other: Database, groups: range) -> None:
        """Adds these groups of another database, which has no group in common with this one: as one sorted file."""
        path = f"{self.folder}.taken-in.sst"
        writer = SstFileWriter(_options(0))
        writer.open(path)
        empty = True
        for key, value in other.scan(group_start(groups.start), group_start(groups.stop)):
            writer[key] = value
            empty = False
        if not empty:  # RocksDB refuses a file without entries
            writer.finish()
            self.entries.ingest_external_file([path])
        if os.path.exists(path):
            os.unlink(path)

    def freeze(self, folder: str) -> None:
        """Links all files as they are now into a new folder. The stream waits for it."""
        self.entries.flush()  # first: it lets other threads run meanwhile, `create_checkpoint` does not
        Checkpoint(self.entries).create_checkpoint(folder)

    def close(self) -> None:
        """Also deletes it: its snapshots are elsewhere."""
        self.entries.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def open_frozen(folder: str) -> Rdict:
    """The entries of what `freeze` made, to be read only."""
    options = Options(raw_mode=True)
    return Rdict(folder, options, access_type=AccessType.read_only())


@lru_cache(maxsize=1)
def _budget(memory_bytes: int) -> tuple[Cache, WriteBufferManager]:
    """One for all databases of the process."""
    cache = Cache(memory_bytes)
    memtables = WriteBufferManager.new_write_buffer_manager_with_cache(int(memory_bytes * MEMTABLE_SHARE), False, cache)
    return cache, memtables


def _options(memory_bytes: int) -> Options:
    """Without a budget: only for writing a file."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_background_jobs(BACKGROUND_JOBS)
    options.set_max_manifest_file_size(MANIFEST_BYTES_MAX)
    options.set_keep_log_file_num(1)
    options.set_target_file_size_base(FILE_BYTES)
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_level_zero_file_num_compaction_trigger(SORTED_RUNS_MAX)
    universal = UniversalCompactOptions()
    universal.max_size_amplification_percent = SPACE_AMPLIFICATION_PERCENT
    options.set_universal_compaction_options(universal)
    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(BLOOM_BITS, False)
    # In small blocks: the filter of a large file as one block is larger than what a shard of the cache holds, and would
    # be read again for every single key.
    blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    blocks.set_metadata_block_size(METADATA_BLOCK_BYTES)
    blocks.set_pin_top_level_index_and_filter(True)
    if memory_bytes:
        cache, memtables = _budget(memory_bytes)
        blocks.set_block_cache(cache)
        blocks.set_cache_index_and_filter_blocks(True)
        options.set_write_buffer_manager(memtables)
        options.set_write_buffer_size(min(MEMTABLE_BYTES_MAX, int(memory_bytes * MEMTABLE_SHARE / 2)))
    options.set_block_based_table_factory(blocks)
    return options
