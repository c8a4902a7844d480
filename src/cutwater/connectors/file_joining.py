"""How do several files of one format become one?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow.parquet as pq

from cutwater.connectors.avro_format import fastavro
from cutwater.connectors.checksummed import Checksummed
from cutwater.connectors.column_formats import ParquetEncoder

_BLOCK_BYTES = 1 << 20
_ROWS_MAX = 131_072


def join(format: str, files: Sequence[tuple[BinaryIO, int]], target: Checksummed) -> None:  # noqa: A002
    """Writes the records of all files, which can be sought in, in this order. With each, the size of its header."""
    match format:
        case "parquet":
            _join_parquet([file for file, _ in files], target)
        case "avro":
            _join_avro([file for file, _ in files], target)
        case _:
            _concatenate(files, target)


def _concatenate(files: Sequence[tuple[BinaryIO, int]], target: Checksummed) -> None:
    """Compressed ones are rows of frames, so that this is right for them, too."""
    for index, (file, header_bytes) in enumerate(files):
        file.seek(header_bytes if index else 0)
        while block := file.read(_BLOCK_BYTES):
            target.write(block)


def _join_parquet(files: Sequence[BinaryIO], target: Checksummed) -> None:
    """In row groups of full size."""
    encoder: ParquetEncoder | None = None
    for file in files:
        with pq.ParquetFile(file) as parquet:
            if encoder is None:
                codec = parquet.metadata.row_group(0).column(0).compression.lower()
                encoder = ParquetEncoder("none" if codec == "uncompressed" else codec)
                encoder.start(target)
            for batch in parquet.iter_batches(_ROWS_MAX, use_threads=False):
                encoder.write(batch)
    assert encoder is not None, "there is something to join"
    encoder.finish()


def _join_avro(files: Sequence[BinaryIO], target: Checksummed) -> None:
    writer: Any = None
    for file in files:
        blocks = fastavro().block_reader(file)
        if writer is None:
            writer = fastavro().write.Writer(target, blocks.writer_schema, codec=blocks.codec)
        for block in blocks:
            writer.write_block(block)
    writer.flush()
