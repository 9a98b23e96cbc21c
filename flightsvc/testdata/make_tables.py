#!/usr/bin/env python3
"""Writes the tables of this package's tests with pylance 14.0.2.

    python make_tables.py

Payloads are zeros, and their sidecar objects are not kept: `sidecars.txt` lists
their lengths, and the tests make them anew as sparse files. So a table of
400 MiB takes a few kilobytes here.

    large   20 MiB and 5 MiB values among small, null and empty ones
    many    400 values of 1 MiB in one packed object
"""

import pathlib
import shutil
import tempfile

import lance
import pyarrow as pa
from lance import blob_array, blob_field

HERE = pathlib.Path(__file__).resolve().parent / "tables"
MIB = 1 << 20


def write(path, values):
    field = blob_field("img", inline_size_threshold=16, dedicated_size_threshold=2 * MIB)
    schema = pa.schema([pa.field("id", pa.int64()), field])
    table = pa.table([pa.array(range(len(values)), pa.int64()), blob_array(values)], schema=schema)
    lance.write_dataset(table, str(path), data_storage_version="2.2")


def main():
    shutil.rmtree(HERE, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        write(scratch / "large.lance", [b"tiny", bytes(20 * MIB), None, b"", bytes(5 * MIB)])
        write(scratch / "many.lance", [bytes(MIB)] * 400)
        lines = []
        for blob in sorted(scratch.rglob("*.blob")):
            lines.append(f"{blob.stat().st_size} {blob.relative_to(scratch)}\n")
            blob.unlink()
        shutil.copytree(scratch, HERE)
        (HERE / "sidecars.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
