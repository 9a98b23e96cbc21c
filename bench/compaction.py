#!/usr/bin/env python3
"""Compaction by the command line beside pylance's compact_files: the same tables, copies of them in turns.

    python compaction.py FOLDER [--binary bin/flightblob] [--scale 1] [--rounds 3] [--only managed]

Both are timed whole, the start of the command included, and must leave the same rows. A ratio above 1 means that
flightblob is faster. Its files are synced to disk, those of pylance are not: a memory file system leaves that out.
"""

import argparse
import pathlib
import shutil
import statistics
import subprocess
import time

import lance
import numpy as np
import pyarrow as pa

from report import aligned

FRAGMENTS = 20
KINDS = {  # rows of a fragment, bytes of a blob value, managed
    "numbers and text": (50_000, 0, False),
    "inline blobs of 10 kB": (2_000, 10_000, False),
    "packed blobs of 200 kB": (200, 200_000, False),
    "packed blobs of 200 kB, managed": (200, 200_000, True),
}


def rows(first, n, size):
    rng = np.random.default_rng(first)
    texts = pa.array([f"text {x}" for x in rng.integers(0, 100_000, n)])
    table = pa.table({"id": np.arange(first, first + n), "number": rng.random(n), "text": texts})
    if size:
        table = table.append_column(lance.blob_field("img"), lance.blob_array([rng.bytes(size) for _ in range(n)]))
    return table


def make(path, n, size, managed):
    for i in range(FRAGMENTS):
        lance.write_dataset(rows(i * n, n, size), path, mode="append" if i else "create", data_storage_version="2.2")
        if i == 0 and managed:
            lance.dataset(path).update_schema_metadata({"lance.blob.managed": "true"})
    lance.dataset(path).delete("id % 10 = 3")


def contents(path):
    return lance.dataset(path).scanner(blob_handling="all_binary").to_table()


def measure(folder, binary, scale, rounds, only):
    def ours(path):
        command = [binary, "compact", path.stem, "--root", str(path.parent)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    lines = [["table", "flightblob s", "pylance s", "ratio", "lowest", "highest"]]
    for name, (n, size, managed) in KINDS.items():
        if only and only not in name:
            continue
        source, target = folder / "source.lance", folder / "target.lance"
        make(str(source), max(10, int(n * scale)), size, managed)
        taken = {"flightblob": [], "pylance": []}
        for _ in range(rounds):
            left = []
            for who, seconds in taken.items():
                shutil.copytree(source, target)
                start = time.perf_counter()
                if who == "flightblob":
                    ours(target)
                else:
                    lance.dataset(str(target)).optimize.compact_files()
                seconds.append(time.perf_counter() - start)
                left.append(contents(str(target)))
                shutil.rmtree(target)
            if not left[0].equals(left[1]):
                raise SystemExit(f"{name}: the two leave different rows")
        shutil.rmtree(source)
        ratios = sorted(b / a for a, b in zip(*taken.values(), strict=True))
        figures = [statistics.median(s) for s in taken.values()] + [statistics.median(ratios), ratios[0], ratios[-1]]
        lines.append([name, *(f"{f:.2f}" for f in figures)])
    return lines


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("folder", type=pathlib.Path)
    args.add_argument("--binary", default="bin/flightblob")
    args.add_argument("--scale", type=float, default=1)
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--only", help="tables whose name holds this text")
    opts = args.parse_args()
    opts.folder.mkdir(parents=True, exist_ok=True)
    print(aligned(measure(opts.folder, opts.binary, opts.scale, opts.rounds, opts.only)))


if __name__ == "__main__":
    main()
