"""Writes golden files of format 2.0 as early writers made it.

    python generate_early.py PREFIX [DIRECTORY [ROWS]]

Run once each in an environment with pylance 0.12.0 (PREFIX early012), 0.13.0
(early013) and 0.15.0 with LANCE_USE_BITPACKING=1 and LANCE_PAGE_COMPRESSION=zstd
set (early015). Each case is PREFIX_NAME.lance, the data file of a table, and
PREFIX_NAME.arrow, an Arrow IPC stream of what was written. These versions
ignore blob marks; before 0.15 they ignore packed marks too, and 0.12 and 0.13
store strings as lists of bytes.
"""
import glob
import os
import random
import shutil
import sys
import tempfile
from decimal import Decimal

import lance
import pyarrow as pa

PREFIX = sys.argv[1]
OUT = sys.argv[2] if len(sys.argv) > 2 else os.path.dirname(os.path.abspath(__file__))
ROWS = int(sys.argv[3]) if len(sys.argv) > 3 else 40
F = pa.field
rng = random.Random(7)


def column(make, nulls=0.3):
    return [None if rng.random() < nulls else make() for _ in range(ROWS)]


def text():
    return "".join(rng.choice("abcdefgäß") for _ in range(rng.choice([0, 1, 4, 30])))


def integer():
    return rng.randrange(-1000, 1000)


def small():
    return rng.randrange(100)


def items(make, nulls=0.2):
    return lambda: [None if rng.random() < nulls else make() for _ in range(rng.choice([0, 0, 1, 2, 5]))]


PACKS = not lance.__version__.startswith(("0.12", "0.13", "0.14"))
LAST = F("c", pa.int16()) if PACKS else F("c", pa.string())
ROW = pa.struct([F("a", pa.int32()), F("b", pa.float64()), LAST])
CASES = {
    "ints": [
        (F("a", pa.int32()), lambda: column(integer)),
        (F("u", pa.uint16()), lambda: column(small)),
        (F("b", pa.bool_()), lambda: column(lambda: rng.random() < 0.5)),
        (F("d", pa.float64()), lambda: column(rng.random)),
        (F("dec", pa.decimal128(10, 2)), lambda: column(lambda: Decimal(integer()) / 4)),
        (F("ts", pa.timestamp("us")), lambda: column(small)),
    ],
    "strings": [
        (F("s", pa.string()), lambda: column(text)),
        (F("i", pa.int32()), lambda: column(integer)),
        (F("b", pa.binary()), lambda: column(lambda: text().encode())),
        (F("r", pa.string()), lambda: column(lambda: rng.choice(["x", "yy", ""]))),
    ],
    "nested": [
        (F("l", pa.list_(pa.int32())), lambda: column(items(integer))),
        (F("st", pa.struct([F("x", pa.int64()), F("y", pa.string())])), lambda: column(lambda: {"x": integer(), "y": text()}, 0)),
        (F("ls", pa.list_(pa.string())), lambda: column(items(text))),
        (F("sl", pa.list_(pa.struct([F("p", pa.int8()), F("q", pa.string())]))), lambda: column(items(lambda: {"p": small(), "q": text()}, 0), 0)),
        (F("fsl", pa.list_(pa.float32(), 4)), lambda: column(lambda: [rng.random() for _ in range(4)])),
    ],
    "packed": [
        (F("p", ROW, metadata={"packed": "true", "lance-encoding:packed": "true"}),
         lambda: column(lambda: {"a": integer(), "b": rng.random(), "c": small() if PACKS else text()}, 0)),
        (F("z", pa.int8()), lambda: column(small)),
    ],
    "blobs": [
        (F("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}), lambda: column(lambda: text().encode(), 0)),
        (F("i", pa.int32()), lambda: column(integer)),
    ],
}


def write(table, path):
    try:
        lance.write_dataset(table, path, data_storage_version="2.0")
    except TypeError:  # before the parameter existed
        lance.write_dataset(table, path, use_legacy_format=False)


def main():
    os.makedirs(OUT, exist_ok=True)
    for name, columns in CASES.items():
        schema = pa.schema([f for f, _ in columns])
        table = pa.Table.from_arrays([pa.array(make(), f.type) for f, make in columns], schema=schema)
        with tempfile.TemporaryDirectory() as root:
            try:
                write(table, root + "/t")
            except BaseException as e:  # a panic: packed rows cannot be compressed
                print(PREFIX, name, "not written:", type(e).__name__)
                continue
            (path,) = glob.glob(root + "/t/data/*.lance")
            stem = os.path.join(OUT, PREFIX + "_" + name)
            shutil.copy(path, stem + ".lance")
        with pa.ipc.new_stream(stem + ".arrow", schema) as s:
            s.write_table(table.combine_chunks())


if __name__ == "__main__":
    main()
