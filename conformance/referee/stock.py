"""Tables whose every value follows from its row's id, so that any answer can be judged by itself."""

import hashlib

import lance
import numpy as np
import pyarrow as pa

from . import blobs


def payload(identifier, size):
    """The bytes of a row: its id and noise that is its own."""
    head = f"{identifier:016d}".encode()
    unit = hashlib.blake2b(head).digest()
    return (head + unit * (size // 64 + 1))[:size]


def blob_values(ids, size):
    data = pa.array([payload(i, size(i)) for i in ids], pa.large_binary())
    nothing = pa.nulls(len(ids), pa.uint64())
    return pa.StructArray.from_arrays(
        [data, pa.nulls(len(ids), pa.utf8()), nothing, nothing], fields=list(blobs.COMPLETE)
    )


def write(root, name, rows, size, metadata=None, step=None, **options):
    """A table `id int64, blob` of rows values of size(id) bytes, written in batches that fit memory."""
    field = blobs.blob("blob", metadata=metadata or {})
    schema = pa.schema([pa.field("id", pa.int64()), field])
    step = step or max(1, (32 << 20) // max(1, size(0)))

    def batches():
        for start in range(0, rows, step):
            ids = range(start, min(start + step, rows))
            yield pa.record_batch([pa.array(ids, pa.int64()), blob_values(ids, size)], schema=schema)

    return lance.write_dataset(
        pa.RecordBatchReader.from_batches(schema, batches()),
        str(root / f"{name}.lance"),
        data_storage_version="2.2",
        **options,
    )


def write_scalars(root, name, rows):
    ids = np.arange(rows)
    table = pa.table({"id": ids, "square": ids * ids, "name": np.char.mod("row %d", ids)})
    return lance.write_dataset(table, str(root / f"{name}.lance"), data_storage_version="2.2")


def wrong_values(table, size):
    """The first row of an answer `id, blob` whose bytes are not the id's own, or None."""
    for identifier, value in zip(table["id"].to_pylist(), table["blob"].to_pylist()):
        if value != payload(identifier, size(identifier)):
            return identifier
    return None
