"""Writes the golden indexes of this folder. Made with pylance 14.0.2:

python generate.py .

columns.arrow holds the indexed columns; btree/NAME and bitmap/NAME are the folders of indexes over them, with pages of
16 rows. Row i of the first fragment has address i, and so on: 100 rows a fragment.
"""

import decimal
import pathlib
import random
import shutil
import sys
import tempfile

import lance
import pyarrow as pa
from lance.indices import IndexConfig

out = pathlib.Path(sys.argv[1])
r = random.Random("golden")
N = 150


def some(make, share=0.1):
    return [None if r.random() < share else make() for _ in range(N)]


def number(low, high):
    return lambda: r.randint(low, high)


def fraction():
    return r.choice(
        [float("nan"), -float("nan"), 0.0, -0.0, float("inf"), -float("inf"), *[r.random() for _ in range(9)]]
    )


def text():
    return r.choice(["", "a", "ab", "Ünï", "\U0001f600", "a\x00b", f"name {r.randint(0, 99)}"])


COLUMNS = {
    "int8": pa.array(some(number(-9, 9)), pa.int8()),
    "int64": pa.array(some(lambda: r.choice([-(2**63), 2**63 - 1, r.randint(-50, 50)])), pa.int64()),
    "uint64": pa.array(some(lambda: r.choice([2**64 - 1, r.randint(0, 50)])), pa.uint64()),
    "half": pa.array(some(fraction)).cast(pa.float16()),
    "float": pa.array(some(fraction), pa.float32()),
    "double": pa.array(some(fraction, 0), pa.float64()),
    "decimal": pa.array(some(lambda: decimal.Decimal(r.randint(-999, 999)) / 100), pa.decimal128(12, 2)),
    "decimal256": pa.array(some(lambda: decimal.Decimal(r.randint(-999, 999)) / 100), pa.decimal256(30, 2)),
    "date64": pa.array(some(lambda: r.randint(-30, 30) * 86_400_000), pa.int64()).cast(pa.date64()),
    "time32": pa.array(some(number(0, 86_399)), pa.int32()).cast(pa.time32("s")),
    "timestamp": pa.array(some(number(-99, 99)), pa.int64()).cast(pa.timestamp("us", "UTC")),
    "string": pa.array(some(text), pa.string()),
    "large_string": pa.array(some(text, 0), pa.large_string()),
    "binary": pa.array(some(lambda: r.randbytes(r.randint(0, 2))), pa.binary()),
    "fixed": pa.array(some(lambda: r.randbytes(2)), pa.binary(2)),
    "bool": pa.array(some(lambda: r.random() < 0.5), pa.bool_()),
    "null": pa.array([None] * N, pa.int32()),
}

root = pathlib.Path(tempfile.mkdtemp())
try:
    table = pa.table(COLUMNS)
    ds = lance.write_dataset(table, root / "t.lance", max_rows_per_file=100)
    with pa.ipc.new_file(out / "columns.arrow", table.schema) as f:
        f.write_table(table.combine_chunks())
    for name in COLUMNS:
        for kind, config in ("btree", IndexConfig("btree", {"zone_size": 16})), ("bitmap", "BITMAP"):
            ds.create_scalar_index(name, config, name=f"{kind}_{name}")
    for kind in "btree", "bitmap":
        shutil.rmtree(out / kind, ignore_errors=True)
        for name in COLUMNS:
            uuid = next(x["uuid"] for x in ds.list_indices() if x["name"] == f"{kind}_{name}")
            shutil.copytree(root / "t.lance/_indices" / uuid, out / kind / name)
finally:
    shutil.rmtree(root)
