"""Memory stays within the agreed budget however long the streams are that clients put, and however large a value is."""

import json
import shutil
import threading
import time

import lance
import numpy as np
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from referee import blobs
from referee.server import Server, memory

BUDGET = 64 << 20
ALLOWED = BUDGET + (250 << 20)  # the budget, and what a Go process of this size may need beside it
WRITERS = 4
BATCH = 4 << 20
VALUES = {"4 MiB": 4 << 20, "100 KiB": 100 << 10}
PIECE = 4 << 20
ARGUMENTS = ["--memory", "64MiB", "--put-memory", "64MiB"]


def random_values(n, size, seed):
    """n values of random bytes over one buffer."""
    block = pa.py_buffer(np.random.default_rng(seed).bytes(n * size))
    offsets = pa.py_buffer(np.arange(n + 1, dtype=np.int64) * size)
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), n, [None, offsets, block])


class Stream(threading.Thread):
    """Puts `rows` rows in one stream: ids from `first` on, values that come again with every batch."""

    def __init__(self, uri, first, rows, size):
        super().__init__(daemon=True)
        self.uri, self.first, self.rows = uri, first, rows
        self.values = random_values(max(1, BATCH // size), size, first)
        self.error = None

    def batches(self, schema):
        kind = schema.field("b").type
        for start in range(0, self.rows, len(self.values)):
            n = min(len(self.values), self.rows - start)
            data = pa.StructArray.from_arrays([self.values.slice(0, n), pa.nulls(n, pa.utf8())], fields=list(kind))
            ids = pa.array(np.arange(self.first + start, self.first + start + n))
            yield pa.record_batch([ids, data], schema=schema)

    def value(self, identifier):
        return self.values[(identifier - self.first) % len(self.values)].as_py()

    def run(self):
        schema = pa.schema([pa.field("id", pa.int64()), blobs.blob("b", complete=False, metadata={})])
        try:
            with fl.connect(self.uri) as client:
                descriptor = fl.FlightDescriptor.for_path("t")
                writer, answers = client.do_put(descriptor, schema, fl.FlightCallOptions(timeout=1800))
                for batch in self.batches(schema):
                    writer.write_batch(batch)
                writer.done_writing()
                assert json.loads(answers.read().to_pybytes())["rows"] == self.rows
                writer.close()
        except Exception as error:
            self.error = error


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("value", VALUES, ids=lambda v: v.replace(" ", ""))
@pytest.mark.parametrize("share", ["half", "whole", "double"])
def test_budget_holds_for_writers(binary, tmp_path, full, value, share):
    """Four streams at once; together they are up to 60 times the budget, and the peak is the same for all lengths."""
    payload = {"half": 1, "whole": 2, "double": 4}[share] * ((1 << 30) if full else (128 << 20))
    size = VALUES[value]
    each = payload // size // WRITERS
    root = tmp_path / "root"
    root.mkdir()
    with Server(binary, root, arguments=ARGUMENTS) as server:
        streams = [Stream(server.uri, w * each, each, size) for w in range(WRITERS)]
        started = time.monotonic()
        for stream in streams:
            stream.start()
        for stream in streams:
            stream.join(900)
        seconds = time.monotonic() - started
        server.check_alive()
        high = memory(server.pid)["VmHWM"]
    for stream in streams:
        assert not stream.is_alive(), "a writer hangs"
        assert stream.error is None, stream.error
    dataset = lance.dataset(str(root / "t.lance"))
    ids = dataset.to_table(columns=["id"])["id"].to_numpy()
    assert np.array_equal(np.sort(ids), np.arange(WRITERS * each))
    for position in np.random.default_rng(1).integers(0, len(ids), 20).tolist():
        identifier = int(ids[position])
        [(_, got)] = dataset.read_blobs("b", indices=[position])
        assert got == streams[identifier // each].value(identifier)
    shutil.rmtree(root)
    speed = payload / seconds / 1e9
    print(f"{value}, {payload >> 20} MiB: peak {high / 2**20:.0f} MiB of {ALLOWED >> 20}; {speed:.2f} GB/s")
    assert high < ALLOWED, f"VmHWM {high / 2**20:.0f} MiB"


@pytest.mark.timeout(3600)
def test_one_value_larger_than_memory(binary, tmp_path, full):
    """A value in pieces goes straight into its object. 10 GiB in the full run."""
    pieces = (10 << 30 if full else 256 << 20) // PIECE
    block = bytearray(np.random.default_rng(3).bytes(PIECE))
    root = tmp_path / "root"
    root.mkdir()
    schema = pa.schema([("chunk_no", pa.uint64()), ("bytes", pa.large_binary())])
    blob = blobs.blob("b", complete=False, metadata={})
    table = pa.schema([pa.field("id", pa.int64()), blob]).empty_table()

    def piece(number):
        block[:8] = number.to_bytes(8, "little")
        return bytes(block)

    with Server(binary, root, arguments=ARGUMENTS) as server, fl.connect(server.uri) as client:
        writer, answers = client.do_put(fl.FlightDescriptor.for_path("t"), table.schema)
        writer.write_table(table)
        writer.done_writing()
        answers.read()
        writer.close()
        size = pieces * PIECE - 5
        command = {"table": "t", "mode": "value", "column": "b", "row": {"id": 7}, "size": size}
        descriptor = fl.FlightDescriptor.for_command(json.dumps(command).encode())
        started = time.monotonic()
        writer, answers = client.do_put(descriptor, schema, fl.FlightCallOptions(timeout=3600))
        for number in range(pieces):
            data = piece(number) if number < pieces - 1 else piece(number)[:-5]
            part = [pa.array([number], pa.uint64()), pa.array([data], pa.large_binary())]
            writer.write_batch(pa.record_batch(part, schema=schema))
        writer.done_writing()
        assert json.loads(answers.read().to_pybytes()) == {"version": 2, "rows": 1}
        writer.close()
        seconds = time.monotonic() - started
        high = memory(server.pid)["VmHWM"]
        ticket = {"table": "t", "column": "b", "ranges": [[0, 3 * PIECE - 4, 12], [0, size - 3, 3]]}
        got = client.do_get(fl.Ticket(json.dumps(ticket).encode())).read_all()["bytes"].to_pylist()
        assert got == [piece(2)[-4:] + piece(3)[:8], piece(pieces - 1)[:-5][-3:]]
    dataset = lance.dataset(str(root / "t.lance"))
    dataset.validate()
    [value] = dataset.take_blobs("b", indices=[0])
    assert value.size() == size
    for number in [0, 1, pieces // 2, pieces - 2]:
        value.seek(number * PIECE)
        assert value.read(PIECE) == piece(number)
    value.seek((pieces - 1) * PIECE)
    assert value.read() == piece(pieces - 1)[:-5]
    shutil.rmtree(root)
    speed = size / seconds / 1e9
    print(f"one value of {size >> 20} MiB: peak {high / 2**20:.0f} MiB of {ALLOWED >> 20}; {speed:.2f} GB/s")
    assert high < ALLOWED, f"VmHWM {high / 2**20:.0f} MiB"
