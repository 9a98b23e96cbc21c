"""pylance changes a table while clients read it: every answer is exactly one version, none older than may be."""

import random
import shutil
import threading
import time

import lance
import pyarrow as pa
import pytest
from referee import blobs, stock
from referee.client import Client
from referee.server import Server

CLIENTS = 20
SIZES = (20, 300, 9000)


def size(identifier):
    return SIZES[identifier % 3]


class State:
    """What one version holds, and when it can have been the newest: from when its commit began until the next ended."""

    def __init__(self, names, ids, began):
        self.names, self.ids, self.began, self.replaced = names, ids, began, float("inf")

    def fits(self, table):
        return table.schema.names == self.names and table.column(0).to_pylist() == self.ids


class Writer:
    """One pylance process' worth of changes, with every state that was ever public."""

    def __init__(self, path, rng):
        self.path, self.rng = path, rng
        self.states = []
        self.names, self.ids, self.next = ["id", "blob"], [], 0

    def publish(self, change, ids, names=("id", "blob")):
        """Runs a change that makes the table hold these rows; None as ids means that there is no table."""
        state = State(list(names), ids, time.monotonic())
        self.states.append(state)
        change()
        if len(self.states) > 1:
            self.states[-2].replaced = time.monotonic()
        self.ids, self.names = ids, list(names)

    def batch(self, count):
        ids = list(range(self.next, self.next + count))
        self.next += count
        field = blobs.blob(self.names[1], metadata=blobs.KEYS)
        schema = pa.schema([pa.field(self.names[0], pa.int64()), field])
        return ids, pa.table([pa.array(ids, pa.int64()), stock.blob_values(ids, size)], schema=schema)

    def create(self):
        """A fresh table; its version numbers begin at one again."""
        self.names = ["id", "blob"]
        ids, table = self.batch(40)
        self.publish(lambda: lance.write_dataset(table, str(self.path), data_storage_version="2.2"), ids)

    def append(self):
        ids, table = self.batch(self.rng.randint(1, 30))
        self.publish(lambda: lance.write_dataset(table, str(self.path), mode="append"), self.ids + ids, self.names)

    def delete(self):
        gone = self.rng.sample(self.ids, max(1, len(self.ids) // 10))
        kept = [i for i in self.ids if i not in set(gone)]
        where = f"{self.names[0]} in ({','.join(map(str, gone))})"
        self.publish(lambda: lance.dataset(str(self.path)).delete(where), kept, self.names)

    def rename(self):
        other = "key" if self.names[0] == "id" else "id"
        change = {"path": self.names[0], "name": other}
        self.publish(lambda: lance.dataset(str(self.path)).alter_columns(change), self.ids, [other, *self.names[1:]])

    def drop(self):
        self.publish(lambda: shutil.rmtree(self.path), None, [])

    def step(self):
        if not self.ids:
            self.create()
        else:
            self.rng.choice([self.append, self.append, self.delete, self.rename])()


class Reader(threading.Thread):
    """Reads the whole table again and again; judged afterwards, when all states are known."""

    def __init__(self, uri, stop):
        super().__init__(daemon=True)
        self.client, self.stop = Client(uri), stop
        self.answers = []

    def run(self):
        while not self.stop.is_set():
            began = time.monotonic()
            try:
                answer = self.client.get(table="t")
            except Exception as error:
                answer = error
            self.answers.append((began, time.monotonic(), answer))


def judge(began, ended, answer, states):
    """What is wrong with an answer that was asked for and complete at these times, or None."""
    possible = [s for s in states if s.began <= ended and s.replaced >= began]
    if isinstance(answer, Exception):
        # Only a drop may be seen as an error, and only while the table was going, gone or coming back.
        if any(s.ids is None for s in possible):
            return None
        return f"{type(answer).__name__}: {answer}"[:400]
    if not any(s.ids is not None and s.fits(answer) for s in possible):
        old = [n for n, s in enumerate(states) if s.ids is not None and s.fits(answer)]
        now = [states.index(s) for s in possible]
        return f"{answer.num_rows} rows of {answer.schema.names}: state {old}, possible were {now}"
    values = pa.table([answer.column(0), answer.column(1)], names=["id", "blob"])
    at = stock.wrong_values(values, size)
    return None if at is None else f"bytes of row {at}"


@pytest.mark.timeout(600)
def test_every_answer_is_one_version(binary, tmp_path, seed, full):
    root = tmp_path / "root"
    root.mkdir()
    writer = Writer(root / "t.lance", random.Random(seed))
    writer.create()
    with Server(binary, root) as server:
        stop = threading.Event()
        readers = [Reader(server.uri, stop) for _ in range(CLIENTS)]
        for reader in readers:
            reader.start()
        end = time.monotonic() + (60 if full else 12)
        changes = 0
        while time.monotonic() < end:
            changes += 1
            writer.drop() if changes % 15 == 0 else writer.step()
            time.sleep(0.05)
        stop.set()
        for reader in readers:
            reader.join(120)
            assert not reader.is_alive(), "a reader hangs"
        server.check_alive()
    answers = [a for r in readers for a in r.answers]
    wrong = [told for a in answers if (told := judge(*a, writer.states))]
    errors = sum(isinstance(a[2], Exception) for a in answers)
    print(f"{len(writer.states)} states, {len(answers)} answers, {errors} of them errors around a drop")
    assert not wrong, f"{len(wrong)} of {len(answers)}: {wrong[:5]}"
    assert len(answers) - errors > 5 * CLIENTS, "too few answers to prove anything"


def test_pinned_versions_never_change(binary, tmp_path):
    """A version asked for by number or tag answers the same whatever happens later; a removed one is NotFound."""
    root = tmp_path / "root"
    root.mkdir()
    writer = Writer(root / "t.lance", random.Random(5))
    writer.create()
    first = writer.ids
    lance.dataset(str(writer.path)).tags.create("kept", 1)
    with Server(binary, root) as server:
        client = Client(server.uri)
        info = client.info(table="t")  # pins the version of now
        for _ in range(5):
            writer.append()
        assert client.get(table="t", version=1)["id"].to_pylist() == first
        assert client.get(table="t", tag="kept")["id"].to_pylist() == first
        assert client.from_info(info)["id"].to_pylist() == first
        assert client.get(table="t")["id"].to_pylist() == writer.ids
        with pytest.raises(pa.ArrowException, match="77"):
            client.get(table="t", version=77)
        lance.dataset(str(writer.path)).tags.delete("kept")
        dataset = lance.dataset(str(writer.path))
        import datetime

        dataset.cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True)
        with pytest.raises((pa.ArrowException, KeyError), match="1") as told:
            client.get(table="t", version=1)
        assert "6" in str(told.value), "the error does not name the oldest version that exists"
        client.close()
