"""A hundred clients at once: no error, no wrong byte, nobody starved, and everything given back afterwards."""

import itertools
import random
import statistics
import threading
import time

import pyarrow as pa
import pytest
from referee import stock
from referee.client import Client
from referee.server import Server, settle

CLIENTS = 100
SIZES = {"small": lambda i: 4096, "images": lambda i: 90_000 + i % 1000, "inline": lambda i: 100 + i % 50}
ROWS = {"small": 2000, "images": 80, "inline": 3000, "scalars": 100_000}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("load") / "root"
    folder.mkdir()
    for name, size in SIZES.items():
        stock.write(folder, name, ROWS[name], size)
    stock.write_scalars(folder, "scalars", ROWS["scalars"])
    return folder


def tickets(rng):
    """What one client asks, for ever: scans, points, descriptors, ranges, windows."""
    while True:
        name = rng.choice(list(SIZES))
        kind = rng.randrange(6)
        if kind == 0:
            yield {"table": name, "columns": ["id", "blob"], "limit": 200, "offset": rng.randrange(ROWS[name])}
        elif kind == 1:
            yield {"table": name, "columns": ["id", "blob"], "rows": [rng.randrange(ROWS[name])]}
        elif kind == 2:
            some = [rng.randrange(ROWS[name]) for _ in range(20)]
            yield {"table": name, "columns": ["id", "blob"], "rows": some}
        elif kind == 3:
            yield {"table": name, "columns": ["id", "blob"], "blobs": "descriptor"}
        elif kind == 4:
            some = [[rng.randrange(ROWS[name]), 3, 13] for _ in range(8)]
            yield {"table": name, "column": "blob", "ranges": some}
        else:
            yield {"table": "scalars", "columns": ["id", "square"], "limit": 20_000}


def judge(want, table):
    """What is wrong with an answer, or None."""
    if "ranges" in want:
        size = SIZES[want["table"]]
        right = [stock.payload(row, size(row))[at : at + n] for row, at, n in want["ranges"]]
        return None if table["bytes"].to_pylist() == right else "bytes of ranges"
    name, ids = want["table"], table["id"].to_pylist()
    if "rows" in want:
        right = want["rows"]
    else:
        first = want.get("offset", 0)
        right = list(range(first, min(ROWS[name], first + want.get("limit", ROWS[name]))))
    if ids != right:
        return f"ids {ids[:5]}… instead of {right[:5]}…"
    if name == "scalars":
        return None if table["square"].to_pylist()[-1] == ids[-1] ** 2 else "squares"
    if want.get("blobs") == "descriptor":
        sizes = [d["size"] for d in table["blob"].to_pylist()]
        return None if sizes == [SIZES[name](i) for i in ids] else "sizes of descriptors"
    at = stock.wrong_values(table, SIZES[name])
    return None if at is None else f"bytes of row {at}"


class Person(threading.Thread):
    """One client with a connection of its own."""

    def __init__(self, uri, rng, end):
        super().__init__(daemon=True)
        self.uri, self.rng, self.end = uri, rng, end
        self.first, self.wrong = [], []

    def run(self):
        client = Client(self.uri)
        try:
            for want in tickets(self.rng):
                if time.monotonic() > self.end:
                    return
                started = time.monotonic()
                reader = client.reader(**want)
                head = reader.read_chunk().data
                self.first.append(time.monotonic() - started)
                told = judge(want, pa.Table.from_batches([head, *(c.data for c in reader)], schema=reader.schema))
                if told:
                    self.wrong.append(f"{want}: {told}")
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error}"[:500])
        finally:
            client.close()


def crowd(uri, seed, seconds):
    end = time.monotonic() + seconds
    people = [Person(uri, random.Random(f"{seed} {n}"), end) for n in range(CLIENTS)]
    for person in people:
        person.start()
    for person in people:
        person.join(seconds + 120)
        assert not person.is_alive(), "a client hangs"
    return people


def test_hundred_clients(binary, root, seed, full):
    with Server(binary, root) as server:

        def goroutines():
            return server.metric("go_goroutines")

        def resident():
            return server.metric("process_resident_memory_bytes")

        quiet = settle(goroutines, 0, 1)
        crowd(server.uri, seed, 3)  # warms caches and heap: what is resident then is the base
        settle(goroutines, quiet + 10)
        base = settle(resident, 0, 8)
        people = crowd(server.uri, seed + 1, 60 if full else 10)
        server.check_alive()
        wrong = list(itertools.chain.from_iterable(p.wrong for p in people))
        assert not wrong, wrong[:5]
        typical = [statistics.median(p.first) for p in people if p.first]
        assert len(typical) == CLIENTS, "some clients got no answer at all"
        middle, slowest = statistics.median(typical), max(typical)
        requests = sum(len(p.first) for p in people)
        print(f"{requests} requests, first batch {middle * 1e3:.1f} ms, slowest client {slowest * 1e3:.1f} ms")
        assert slowest < 5 * middle, f"slowest client {slowest:.3f} s, median {middle:.3f} s"
        left = settle(goroutines, quiet + 10, 20)
        assert left <= quiet + 10, f"{left} goroutines stay, {quiet} before"
        kept = settle(resident, base + (64 << 20), 30)
        assert kept <= base + (64 << 20), f"{kept / 1e6:.0f} MB stay, {base / 1e6:.0f} MB before"


def test_clients_that_leave(binary, root):
    """Streams that are cancelled at the first batch leave nothing running."""
    with Server(binary, root) as server:
        client = Client(server.uri)
        client.get(table="images", limit=1)
        quiet = settle(lambda: server.metric("go_goroutines"), 0, 1)
        for _ in range(30):
            reader = client.reader(table="images", batch_bytes=100_000)
            reader.read_chunk()
            reader.cancel()
        left = settle(lambda: server.metric("go_goroutines"), quiet + 5, 3)
        assert left <= quiet + 5, f"{left} goroutines stay, {quiet} before"
        client.close()
