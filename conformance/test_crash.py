"""kill -9 at random moments during writes by clients of our server and by processes of pylance."""

import datetime
import itertools
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import lance
import pyarrow as pa
import pytest
from referee import stock
from referee.client import Client
from referee.server import Server
from test_many_writers import ROWS, rows_of, size

HERE = pathlib.Path(__file__).resolve().parent
PYLANCE = """
import sys
import lance
from test_many_writers import rows_of
path, first = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
for number in range(first, first + 100):
    lance.write_dataset(rows_of(number), path, mode="append")
    print(number, flush=True)
"""


class Ours(threading.Thread):
    """A client that appends until its server is gone."""

    def __init__(self, uri, numbers):
        super().__init__(daemon=True)
        self.uri, self.numbers = uri, numbers
        self.tried, self.acknowledged, self.wrong = [], [], None
        self.killed = threading.Event()

    def run(self):
        client = Client(self.uri)
        try:
            while True:
                number = next(self.numbers)
                self.tried.append(number)
                client.put(rows_of(number), table="t", mode="append")
                self.acknowledged.append(number)
        except (pa.ArrowException, OSError) as error:
            if not self.killed.is_set():
                self.wrong = error
        finally:
            client.close()


class Theirs:
    """A process of pylance that appends until it is killed."""

    def __init__(self, path, first):
        self.tried = list(range(first, first + 100))
        self.process = subprocess.Popen(
            [sys.executable, "-c", PYLANCE, path, str(first)], cwd=HERE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "ready\n"

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        with self.process:
            self.acknowledged = [int(line) for line in self.process.stdout if line.endswith("\n")]


def files(root):
    return sorted(str(f.relative_to(root)) for f in pathlib.Path(root).rglob("*") if f.is_file())


@pytest.mark.timeout(1800)
def test_kills(binary, tmp_path, full, seed):
    """Every version opens, what was acknowledged is there, the rest is absent or whole; cleanup takes what is left."""
    wanted, least = (200, 60) if full else (40, 9)
    rng = random.Random(seed)
    print(f"seed {seed}")
    path = tmp_path / "t.lance"
    lance.write_dataset(rows_of(0), str(path), data_storage_version="2.2")
    numbers = itertools.count(1)
    acknowledged, tried, kills = {0}, {0}, 0
    while len(acknowledged) < wanted or kills < least:
        server = Server(binary, tmp_path)
        theirs = [Theirs(str(path), 1_000_000 + 1000 * kills + 100 * i) for i in range(2)]
        ours = [Ours(server.uri, numbers) for _ in range(3)]
        for writer in ours:
            writer.start()
        time.sleep(rng.uniform(0.02, 0.5))
        for writer in ours:
            writer.killed.set()
        victims = [lambda s=server: os.kill(s.pid, signal.SIGKILL), *[t.kill for t in theirs]]
        for kill in rng.sample(victims, len(victims)):
            kill()
            time.sleep(rng.uniform(0, 0.1))
        server.process.wait()
        server.log.unlink()
        for writer in ours:
            writer.join(60)
            assert not writer.is_alive()
            assert writer.wrong is None, writer.wrong
        for writer in [*ours, *theirs]:
            acknowledged.update(writer.acknowledged)
            tried.update(writer.tried)
        kills += len(victims)

    dataset = lance.dataset(str(path))
    dataset.validate()
    with Server(binary, tmp_path) as server:
        client = Client(server.uri)
        for version in dataset.versions():
            number = version["version"]
            count = dataset.checkout_version(number).count_rows()
            assert count % ROWS == 0, f"version {number} holds a part of a write"
            assert len(client.get(table="t", version=number, columns=["id"])) == count
        for answer in (dataset.to_table(blob_handling="all_binary"), client.get(table="t")):
            ids = sorted(answer["id"].to_pylist())
            present = {i // ROWS for i in ids}
            assert ids == [i for n in sorted(present) for i in range(n * ROWS, (n + 1) * ROWS)], (
                "half a write, or twice"
            )
            assert acknowledged <= present <= tried
            assert stock.wrong_values(answer, size) is None
        # What was begun and never published goes with a cleanup by pylance, but for manifests of its own that had no
        # name yet; ours leave nothing before they have theirs.
        dataset.cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True)
        kept = {f.data_files()[0].path.removesuffix(".lance") for f in lance.dataset(str(path)).get_fragments()}
        left = [f for f in files(path / "data") if f.split("/")[0].removesuffix(".lance") not in kept]
        assert left == []
        unnamed = [f for f in files(path / "_versions") if "#" in f]
        assert len(unnamed) <= kills
        assert len([f for f in files(path / "_versions") if f not in unnamed and f.endswith(".manifest")]) == 1
        after = client.get(table="t")
        assert len(after) == len(ids)
        assert stock.wrong_values(after, size) is None
        client.close()
    print(f"{kills} kills, {len(acknowledged)} writes acknowledged, {len(present)} there")
