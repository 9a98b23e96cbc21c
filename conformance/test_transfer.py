"""Import and export of what is larger than the memory they take; an interrupted one leaves everything as it was."""

import pathlib
import signal
import subprocess
import time

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from referee.server import memory

MIB = 1 << 20
LARGEST = 500 * MIB  # what a run may need; the payload of a full run is four times as much
HUGE = 12 * MIB  # values of the table that has one page of them


class Run:
    """`flightblob` with arguments, watched until it ends."""

    def __init__(self, binary, *arguments):
        self.high = 0
        self.process = subprocess.Popen(
            [str(binary), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def look(self):
        try:
            self.high = max(self.high, memory(self.process.pid)["VmHWM"])
        except OSError:  # it has just ended
            pass

    def end(self):
        while self.process.poll() is None:
            self.look()
            time.sleep(0.01)
        self.said = self.process.stdout.read()
        self.process.stdout.close()
        return self.process.returncode


def done(binary, *arguments):
    run = Run(binary, *arguments)
    assert run.end() == 0, run.said
    return run


def part(rng, first, n, size):
    """n rows: numbers, text, and binary values of about size bytes."""
    lengths = rng.integers(size // 2, size * 3 // 2, n)
    lengths[n // 2] = 0
    offsets = pa.py_buffer(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
    data = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), n, [None, offsets, pa.py_buffer(rng.bytes(int(lengths.sum())))]
    )
    ids = np.arange(first, first + n)
    return pa.table(
        {
            "id": ids,
            "name": pa.array([f"row {i}" for i in ids]),
            "score": pa.array(rng.random(n), mask=ids % 7 == 3),
            "image": data,
        }
    )


def parquet(path, group, groups, size, page):
    """A file of row groups of about `group` bytes, whose pages have `page` values."""
    rng = np.random.default_rng(11)
    step = max(8, 32 * MIB // size)
    rows = 0
    with pq.ParquetWriter(
        str(path), part(rng, 0, 2, 8).schema, compression="none", use_dictionary=False, write_batch_size=page
    ) as out:
        for _ in range(groups):
            parts = []
            while sum(p.nbytes for p in parts) < group:
                parts.append(part(rng, rows, step, size))
                rows += step
            whole = pa.concat_tables(parts)
            out.write_table(whole, row_group_size=len(whole))
    return rows


def same(dataset, source):
    """pylance reads from the table what pyarrow reads from the file, batch by batch."""
    first = 0
    for batch in pq.ParquetFile(str(source)).iter_batches(batch_size=64):
        n = len(batch)
        positions = list(range(first, first + n))
        got = dataset.take(positions, columns=["id", "name", "score"])
        assert got.to_pylist() == batch.select(["id", "name", "score"]).to_pylist()
        blobs = dataset.read_blobs("image", indices=positions, preserve_order=True)
        assert [value for _, value in blobs] == batch["image"].to_pylist()
        first += n
    assert dataset.count_rows() == first


def difference(a, b):
    left, right = pq.ParquetFile(str(a)), pq.ParquetFile(str(b))
    assert left.metadata.num_rows == right.metadata.num_rows
    for x, y in zip(left.iter_batches(batch_size=32), right.iter_batches(batch_size=32), strict=True):
        if x.to_pylist() != y.to_pylist():
            return f"rows from {x['id'][0]} on"
    return None


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shape", ["large-groups", "huge-values"])
def test_larger_than_memory(binary, tmp_path, full, shape):
    """Row groups of 1 GB, and a page of huge values, go into a blob column, to Parquet again and to a folder."""
    group, groups = (1 << 30, 2) if full else (320 * MIB, 1)
    size, page = 100_000, 64
    if shape == "huge-values":  # each group is one page of eight values
        group, groups, size, page = 96 * MIB, 20 if full else 3, HUGE, 1024
    source, root = tmp_path / "source.parquet", tmp_path / "root"
    root.mkdir()
    rows = parquet(source, group, groups, size, page)
    run = done(binary, "import", source, "--root", root, "--table", "t", "--blob", "image")
    dataset = lance.dataset(str(root / "t.lance"))
    dataset.validate()
    assert dataset.count_rows() == rows
    same(dataset, source)
    peaks = {"import": run.high}
    run = done(binary, "export", "t", "--root", root, "--to", tmp_path / "back.parquet", "--memory", "64MiB")
    peaks["export to Parquet"] = run.high
    assert difference(source, tmp_path / "back.parquet") is None
    (tmp_path / "back.parquet").unlink()
    run = done(
        binary, "export", "t", "--root", root, "--to", tmp_path / "folder", "--name", "name", "--memory", "64MiB"
    )
    peaks["export to a folder"] = run.high
    sizes = {f.name.split(".")[0]: f.stat().st_size for f in (tmp_path / "folder").rglob("*") if f.is_file()}
    for batch in pq.ParquetFile(str(source)).iter_batches(batch_size=32):
        assert [sizes[name] for name in batch["name"].to_pylist()] == [len(v) for v in batch["image"].to_pylist()]
    told = ", ".join(f"{what}: {high // MIB} MiB" for what, high in peaks.items())
    print(f"{shape}, {source.stat().st_size // MIB} MiB: {told}")
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.unlink()
    assert max(peaks.values()) < LARGEST, told


def files(root):
    return {str(f.relative_to(root)): f.stat().st_size for f in pathlib.Path(root).rglob("*") if f.is_file()}


def interrupted(binary, begun, *arguments):
    """Ctrl-C when something was written."""
    run = Run(binary, *arguments)
    deadline = time.monotonic() + 60
    while run.process.poll() is None and not begun() and time.monotonic() < deadline:
        time.sleep(0.001)
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 1, run.said


def test_interrupted(binary, tmp_path):
    """Ctrl-C leaves the old version and no rest of the new one, and the exit status is 1."""
    source, root = tmp_path / "source.parquet", tmp_path / "root"
    root.mkdir()
    parquet(source, 400 * MIB, 1, 100_000, 64)
    small = tmp_path / "small.parquet"
    pq.write_table(part(np.random.default_rng(1), 0, 10, 1000), small)
    done(binary, "import", small, "--root", root, "--table", "t", "--blob", "image")
    before = files(root)
    for mode, more in (("append", []), ("overwrite", ["--blob", "image"])):
        interrupted(
            binary,
            lambda: sum(files(root).values()) > sum(before.values()) + 20 * MIB,
            *("import", source, "--root", root, "--table", "t", "--mode", mode, *more),
        )
        assert files(root) == before
    interrupted(
        binary,
        lambda: (root / "u.lance").exists() and sum(files(root / "u.lance").values()) > 20 * MIB,
        *("import", source, "--root", root, "--table", "u", "--blob", "image"),
    )
    assert files(root) == before
    done(binary, "import", source, "--root", root, "--table", "u", "--blob", "image")
    target = tmp_path / "out.parquet"
    target.write_bytes(b"what was there")
    interrupted(
        binary,
        lambda: sum(files(tmp_path).values()) > sum(files(root).values()) + source.stat().st_size + 40 * MIB,
        *("export", "u", "--root", root, "--to", target, "--force"),
    )
    assert target.read_bytes() == b"what was there"
    assert lance.dataset(str(root / "t.lance")).version == 1
