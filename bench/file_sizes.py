#!/usr/bin/env python3
"""Bytes of data files by kind of column: written by a server, and by pylance itself from the same rows.

    python file_sizes.py ROOT grpc://127.0.0.1:31337 [--rows 200000] [--file-version 2.2] [--only ints]

ROOT is a folder that the server serves; the tables are removed again. A ratio above 1 means that the server's files are
larger. Blob columns are left out: their payload is stored as it comes by everybody.
"""

import argparse
import decimal
import pathlib
import shutil

import lance
import numpy as np
import pyarrow as pa

from client import Server
from report import aligned

WORDS = ("owl", "kite", "wren", "heron", "robin", "stork", "swift", "crane", "raven", "finch", "eagle", "gull")


def strings(n, rng, low, high, words=WORDS):
    """Words in a row, of `low` to `high` characters in all."""
    picks = rng.integers(0, len(words), n * (high // 4 + 1)).reshape(n, -1)
    lengths = rng.integers(low, high + 1, n)
    return pa.array([" ".join(words[p] for p in row)[:size] for row, size in zip(picks, lengths)])


def sentences(n, rng, low, high):
    """Text of a vocabulary of 4 000 words with the frequencies of a language."""
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    share = 1 / np.arange(1, 27)
    words = ["".join(rng.choice(letters, rng.integers(2, 11), p=share / share.sum())) for _ in range(4000)]
    some = rng.zipf(1.3, n * (high // 5 + 1)).reshape(n, -1) % 4000
    lengths = rng.integers(low, high + 1, n)
    return pa.array([" ".join(words[p] for p in row)[:size] for row, size in zip(some, lengths)])


def with_nulls(array, rng, share):
    values = array.to_numpy(zero_copy_only=False)
    return pa.array(values, array.type, mask=rng.random(len(array)) < share)


def lists(values, rng, low, high):
    offsets = np.concatenate([[0], np.cumsum(rng.integers(low, high + 1, len(values) // max(high, 1)))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.slice(0, int(offsets[-1])))


def columns(n):
    """Kinds of columns by name, the same values on every run."""
    rng = np.random.default_rng(7)
    ids = np.arange(n)
    walk = np.cumsum(rng.integers(0, 50_000, n)) + 1_700_000_000_000_000
    made = {
        "ints: sequence": pa.array(ids),
        "ints: small, 0 to 999": pa.array(rng.integers(0, 1000, n)),
        "ints: small with outliers": pa.array(np.where(ids % 5000 == 7, 1 << 50, rng.integers(0, 100, n))),
        "ints: constant": pa.array(np.full(n, 42)),
        "ints: runs": pa.array(np.repeat(rng.integers(0, 1 << 40, n // 50 + 1), 50)[:n]),
        "ints: signed, around 0": pa.array(rng.integers(-1000, 1000, n)),
        "ints: random, 64 bits": pa.array(rng.integers(-(1 << 62), 1 << 62, n)),
        "ints: 32 bits, skewed": pa.array((rng.zipf(1.5, n) % (1 << 30)).astype(np.int32)),
        "ints: 16 bits, random": pa.array(rng.integers(-30000, 30000, n).astype(np.int16)),
        "ints: 8 bits, few": pa.array(rng.integers(0, 5, n).astype(np.uint8)),
        "ints: half null": with_nulls(pa.array(rng.integers(0, 100_000, n)), rng, 0.5),
        "ints: 1 % null": with_nulls(pa.array(rng.integers(0, 100_000, n)), rng, 0.01),
        "ints: all null": pa.nulls(n, pa.int64()),
        "floats: random": pa.array(rng.random(n)),
        "floats: prices": pa.array(np.round(rng.gamma(2, 20, n), 2)),
        "floats: 32 bits": pa.array(rng.random(n).astype(np.float32)),
        "floats: whole": pa.array(rng.integers(0, 500, n).astype(np.float64)),
        "timestamps: sorted, µs": pa.array(walk, pa.timestamp("us")),
        "timestamps: days": pa.array(rng.integers(18_000, 20_000, n).astype(np.int32), pa.date32()),
        "bools": pa.array(rng.random(n) < 0.3),
        "bools: 10 % null": pa.array(rng.random(n) < 0.3, mask=rng.random(n) < 0.1),
        "decimals: 128 bits": pa.array(
            [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(0, 10**8, n)], pa.decimal128(20, 2)
        ),
        "text: few values": pa.array(np.array(WORDS)[rng.integers(0, len(WORDS), n)]),
        "text: few values, 20 % null": with_nulls(pa.array(np.array(WORDS)[rng.integers(0, 12, n)]), rng, 0.2),
        "text: short, 4 to 20": strings(n, rng, 4, 20),
        "text: keys": pa.array([f"order-{v:010d}" for v in rng.permutation(n)]),
        "text: hexadecimal ids": pa.array([rng.bytes(16).hex() for _ in range(n)]),
        "text: URLs": pa.array([f"https://media.example.org/images/{v % 97}/{v * 7919}.jpg" for v in ids]),
        "text: sentences, 50 to 200": sentences(n // 4, rng, 50, 200),
        "text: wide, 2 to 6 KB": sentences(n // 80, rng, 2000, 6000),
        "text: dictionary": pa.array(np.array(WORDS)[rng.integers(0, 12, n)]).dictionary_encode(),
        "binary: random, 16": pa.array([rng.bytes(16) for _ in range(n)]),
        "binary: random, 5 KB": pa.array([rng.bytes(5000) for _ in range(n // 200)]),
        "binary: fixed size": pa.array([rng.bytes(12) for _ in range(n)], pa.binary(12)),
        "lists: of ints": lists(pa.array(rng.integers(0, 1000, n)), rng, 0, 10),
        "lists: of text": lists(pa.array(np.array(WORDS)[rng.integers(0, 12, n)]), rng, 1, 5),
        "lists: mostly empty": lists(pa.array(rng.integers(0, 1000, n)), rng, 0, 1),
        "structs": pa.StructArray.from_arrays(
            [pa.array(rng.random(n)), pa.array(rng.integers(0, 100, n)), strings(n, rng, 3, 9)], ["x", "y", "z"]
        ),
        "structs: 30 % null": pa.StructArray.from_arrays(
            [pa.array(rng.random(n)), pa.array(rng.integers(0, 100, n))],
            ["x", "y"],
            mask=pa.array(rng.random(n) < 0.3),
        ),
        "vectors: 64 × float32": pa.FixedSizeListArray.from_arrays(
            pa.array(rng.standard_normal(n // 20 * 64).astype(np.float32)), 64
        ),
        "vectors: 768 × float32": pa.FixedSizeListArray.from_arrays(
            pa.array(rng.standard_normal(n // 200 * 768).astype(np.float32)), 768
        ),
        "vectors: 3 × uint8": pa.FixedSizeListArray.from_arrays(
            pa.array(rng.integers(0, 256, n * 3).astype(np.uint8)), 3
        ),
    }
    made["lists: of structs"] = lists(made["structs"], rng, 0, 6)
    return made


def size(folder):
    return sum(f.stat().st_size for f in (folder / "data").rglob("*") if f.is_file())


def measure(root, server, n, version, only):
    """Bytes by kind of column: the server's files and pylance's."""
    answer = []
    root = pathlib.Path(root)
    ours, theirs = root / "bench_size.lance", root / "bench_size_reference.lance"
    for name, array in columns(n).items():
        if only and only not in name:
            continue
        rows = pa.table({"c": array})
        try:
            command = {"table": "bench_size", "mode": "create", "file_version": version}
            server.put(command, rows.schema, rows.to_batches(max_chunksize=65_536))
            lance.write_dataset(rows, str(theirs), data_storage_version=version)
            assert (
                lance.dataset(str(ours))
                .to_table()["c"]
                .combine_chunks()
                .equals(lance.dataset(str(theirs)).to_table()["c"].combine_chunks())
            ), f"{name} differs"
            answer.append({"kind": name, "arrow": array.nbytes, "ours": size(ours), "pylance": size(theirs)})
        finally:
            shutil.rmtree(ours, ignore_errors=True)
            shutil.rmtree(theirs, ignore_errors=True)
    return answer


def render(found):
    rows = [["kind of column", "Arrow MB", "flightblob MB", "pylance MB", "flightblob ÷ pylance"]]
    for f in found:
        mb = [f"{f[k] / 1e6:.3f}" for k in ("arrow", "ours", "pylance")]
        rows.append([f["kind"], *mb, f"{f['ours'] / f['pylance']:.2f}"])
    return aligned(rows)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("root")
    args.add_argument("server")
    args.add_argument("--rows", type=int, default=200_000)
    args.add_argument("--file-version", default="2.2")
    args.add_argument("--only", help="kinds whose name holds this text")
    opts = args.parse_args()
    print(render(measure(opts.root, Server("flightblob", opts.server), opts.rows, opts.file_version, opts.only)))


if __name__ == "__main__":
    main()
