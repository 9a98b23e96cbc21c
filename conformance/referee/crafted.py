"""Tables that no honest writer makes: literal descriptors, damaged bytes, links that lead away."""

import os
import pathlib
import subprocess
import sys

import lance
import numpy as np
import pyarrow as pa

from .oracle import DESCRIPTOR


def append_descriptors(path, rows, file_name="crafted.lance"):
    """Appends a data file of literal descriptors to a table `id int64, blob`, past every check of a writer."""
    dataset = lance.dataset(str(path))
    ids = {f.name(): f.id() for f in dataset.lance_schema.fields()}
    columns = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(DESCRIPTOR)]
    described = pa.StructArray.from_arrays(columns, fields=list(DESCRIPTOR))
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("blob", described.type, metadata={"lance-encoding:packed": "true"}),
        ]
    )
    start = dataset.count_rows()
    full = pathlib.Path(path) / "data" / file_name
    with lance.file.LanceFileWriter(str(full), schema, version="2.2") as writer:
        numbers = pa.array(range(start, start + len(rows)), pa.int64())
        writer.write_batch(pa.record_batch([numbers, described], schema=schema))
    file = lance.fragment.DataFile(file_name, [ids["id"], ids["blob"]], [0, 1], 2, 2, os.path.getsize(full))
    fragment = lance.FragmentMetadata(0, [file], len(rows))
    lance.LanceDataset.commit(str(path), lance.LanceOperation.Append([fragment]), read_version=dataset.version)
    return start


# ---------------------------------------------------------------- damage


def damage(data, rng):
    """A copy of a file's bytes with one certain injury, and its name."""
    data = bytearray(data)
    kind = rng.choice(["flip", "flip", "flip", "byte", "run", "cut", "zeros", "grow", "number"])
    if not data:
        return bytes(rng.randbytes(8)), "grow"
    at = rng.randrange(len(data))
    if rng.random() < 0.5:  # footers and messages lie at the end
        at = max(0, len(data) - 1 - rng.randrange(min(len(data), 600)))
    if kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "byte":
        data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    elif kind == "run":
        data[at : at + 8] = rng.randbytes(len(data[at : at + 8]))
    elif kind == "cut":
        del data[at:]
    elif kind == "zeros":
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    elif kind == "grow":
        data += rng.randbytes(rng.choice([1, 16, 100]))
    else:  # a length or offset that is far too large
        data[at : at + 8] = rng.choice([2**63 - 1, 2**64 - 1, 2**31, 2**32, 2**40]).to_bytes(8, "little")
    return bytes(data), f"{kind} at {at}"


def files(path):
    """Files of a table whose bytes decide what is read."""
    return sorted(
        str(p.relative_to(path))
        for p in pathlib.Path(path).rglob("*")
        if p.is_file() and not {"_transactions", "_indices"} & set(p.parts)
    )


SECOND = """
import sys, json, pyarrow as pa
sys.path.insert(0, sys.argv[1])
import referee, lance
from referee import oracle
expected = oracle.Oracle(lance.dataset(sys.argv[2]))
table = expected.answer(blobs=sys.argv[3])
with pa.OSFile(sys.argv[4], "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
    writer.write_table(table)
"""


def second_opinion(path, face, scratch):
    """What pylance reads from a damaged table, in a process of its own, since it may not survive. None if nothing."""
    out = pathlib.Path(scratch) / "second.arrow"
    out.unlink(missing_ok=True)
    here = str(pathlib.Path(__file__).resolve().parent.parent)
    try:
        done = subprocess.run(
            [sys.executable, "-c", SECOND, here, str(path), face, str(out)], capture_output=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        return None
    with pa.OSFile(str(out)) as source:
        return pa.ipc.open_stream(source).read_all()


def random_bytes(rng, longest):
    return np.random.default_rng(rng.randrange(1 << 32)).bytes(rng.randrange(longest + 1))
