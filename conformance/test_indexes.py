"""Scalar indexes that pylance builds, carries and remaps: conditions answered by them say what pylance says without."""

import random

import adbc_driver_flightsql.dbapi as dbapi
import lance
import pyarrow as pa
import pytest
from referee import stock
from referee.client import Client
from referee.server import Server

WORDS = ["", "a", "ab", "b", "Ünï", "日本", "z"]
INDEXED = {"key": "BTREE", "name": "BTREE", "day": "BTREE", "amount": "BTREE", "small": "BITMAP", "word": "BITMAP"}


class Changes:
    """A table, and what can be done to it. Each row has an id of its own."""

    def __init__(self, path, rng, stable):
        self.path, self.rng, self.next = str(path), rng, 0
        self.table = lance.write_dataset(
            self.rows(7000), self.path, max_rows_per_file=2500, enable_stable_row_ids=stable
        )
        self.index()

    def rows(self, count):
        rng, ids = self.rng, range(self.next, self.next + count)
        self.next += count

        def some(make):
            return [None if rng.random() < 0.04 else make() for _ in ids]

        return pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "key": pa.array(some(lambda: rng.randint(-2000, 2000)), pa.int64()),
                "name": pa.array(some(lambda: rng.choice(WORDS) + str(rng.randint(0, 2000))), pa.utf8()),
                "day": pa.array(some(lambda: rng.randint(0, 5000)), pa.int32()).cast(pa.date32()),
                "amount": pa.array(some(lambda: rng.randint(-4000, 4000) / 4), pa.float64()),
                "small": pa.array(some(lambda: rng.randint(0, 40)), pa.int8()),
                "word": pa.array(some(lambda: rng.choice(WORDS)), pa.utf8()),
                "text": pa.array([f"{i:080}" for i in ids], pa.utf8()),
            }
        )

    def index(self):
        for column, kind in INDEXED.items():
            self.table.create_scalar_index(column, kind, replace=True)

    def append(self):
        self.table = lance.write_dataset(self.rows(self.rng.randint(100, 1500)), self.path, mode="append")

    def delete(self):
        step = self.rng.randint(3, 12)
        self.table.delete(f"id % {step} = {self.rng.randrange(step)}")

    def delete_run(self):
        low = self.rng.randrange(self.next)
        self.table.delete(f"id >= {low} and id < {low + self.rng.randint(10, 1500)}")

    def update(self):
        low = self.rng.randrange(self.next)
        where = f"id >= {low} and id < {low + self.rng.randint(10, 900)}"
        self.table.update({"key": "key + 1", "word": "'changed'"}, where=where)

    def update_others(self):
        low = self.rng.randrange(self.next)
        self.table.update({"text": "'changed'"}, where=f"id >= {low} and id < {low + self.rng.randint(10, 900)}")

    def merge(self):
        ids = self.rng.sample(range(self.next), 300)
        new = pa.table({"id": pa.array(ids, pa.int64()), "small": pa.array([i % 7 for i in ids], pa.int8())})
        self.table.merge_insert("id").when_matched_update_all().execute(new)

    def compact(self):
        self.table.optimize.compact_files(target_rows_per_fragment=self.rng.choice([3000, 20_000]))

    def compact_and_remap_later(self):
        self.table.optimize.compact_files(target_rows_per_fragment=20_000, defer_index_remap=True)

    def extend_indexes(self):
        self.table.optimize.optimize_indices(num_indices_to_merge=self.rng.choice([0, 1]))

    def step(self, changes):
        change = self.rng.choice(changes)
        getattr(self, change)()
        self.table = lance.dataset(self.path)
        return change


def condition(rng):
    """A condition in words that both sides know."""
    column = rng.choice(list(INDEXED))

    def value():
        return {
            "key": lambda: str(rng.randint(-2100, 2100)),
            "name": lambda: f"'{rng.choice(WORDS)}{rng.randint(0, 2000)}'",
            "day": lambda: f"date '19{rng.randint(70, 84)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}'",
            "amount": lambda: str(rng.randint(-4100, 4100) / 4),
            "small": lambda: str(rng.randint(-1, 42)),
            "word": lambda: f"'{rng.choice([*WORDS, 'changed', 'none'])}'",
        }[column]()

    form = rng.randrange(10)
    if form == 0:
        return f"{column} IS NULL"
    if form < 3:
        return f"{column} BETWEEN {value()} AND {value()}"
    if form < 5:
        return f"{column} IN ({', '.join(value() for _ in range(rng.randint(1, 9)))})"
    if form < 7:
        return f"({condition(rng)} AND {condition(rng)})"
    if form == 7:
        return f"({condition(rng)} OR {condition(rng)})"
    return f"{column} {rng.choice(['=', '=', '<', '>=', '>', '<='])} {value()}"


COMMON = ["append", "delete", "delete_run", "update", "update_others", "merge", "compact", "extend_indexes", "index"]


@pytest.mark.parametrize(
    ("stable", "also"),
    [(False, []), (True, []), (False, ["compact_and_remap_later"])],
    ids=["addresses", "stable ids", "deferred remap"],
)
def test_indexes_through_changes(binary, tmp_path, seed, full, stable, also):
    rng = random.Random(f"{seed} {stable} {also}")
    changes = Changes(tmp_path / "t.lance", rng, stable)
    used = asked = 0
    with Server(binary, tmp_path, arguments=["--log-level", "debug"]) as server:
        client = Client(server.uri)
        with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
            history = []
            for _ in range(40 if full else 8):
                for _ in range(10):
                    where = condition(rng)
                    want = sorted(
                        changes.table.to_table(["id"], filter=where, use_scalar_index=False).column(0).to_pylist()
                    )
                    before = server.stderr().count("indexes were used")
                    cursor.execute(f"SELECT id FROM t WHERE {where}")
                    got = sorted(cursor.fetch_arrow_table().column(0).to_pylist())
                    asked, used = asked + 1, used + (server.stderr().count("indexes were used") > before)
                    assert got == want, f"{where} after {history}: {len(got)} rows, pylance {len(want)}"
                    answer = client.get(table="t", filter=where, columns=["id"])
                    assert sorted(answer.column(0).to_pylist()) == want, f"filter {where} after {history}"
                    cursor.execute(f"SELECT count(*) FROM t WHERE {where}")
                    assert cursor.fetchall() == [(len(want),)], f"count of {where} after {history}"
                history.append(changes.step(COMMON + also))
        client.close()
        assert "an index cannot be used" not in server.stderr()
    assert used > asked / 10, f"indexes were used for {used} of {asked} conditions"


def test_parameters_by_index(binary, tmp_path):
    """Values that clients bind find their rows, and other values of the same statement theirs."""
    changes = Changes(tmp_path / "t.lance", random.Random(3), False)
    rows = changes.table.to_table(["id", "key", "name", "day", "amount"]).to_pylist()
    with Server(binary, tmp_path, arguments=["--log-level", "debug"]) as server:
        with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
            for column in "key", "name", "day", "amount":
                before = server.stderr().count("indexes were used")
                for row in rows[5:1000:150]:
                    cursor.execute(f"SELECT id FROM t WHERE {column} = ?", [row[column]])
                    got = sorted(cursor.fetch_arrow_table().column(0).to_pylist())
                    want = [] if row[column] is None else [r["id"] for r in rows if r[column] == row[column]]
                    assert got == want, f"{column} = {row[column]!r}"
                assert server.stderr().count("indexes were used") > before, f"no index was used for {column}"


def test_blobs_by_index(binary, tmp_path):
    """Payload of the rows that an index names is that of these rows, whatever kind of storage it has."""
    sizes = (0, 200, 40_000, 100_000)
    table = stock.write(tmp_path, "t", 5000, lambda i: sizes[i % 4] if i % 100 == 17 else 10, max_rows_per_file=2000)
    table.create_scalar_index("id", "BTREE")
    table.delete("id % 7 = 3")
    ids = [i for i in (17, 117, 1317, 2217, 2218, 3917, 4999) if i % 7 != 3]
    with Server(binary, tmp_path, arguments=["--log-level", "debug"]) as server:
        with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT id, blob FROM t WHERE id IN ({', '.join(map(str, ids))}) ORDER BY id")
            got = cursor.fetch_arrow_table().to_pydict()
        client = Client(server.uri)
        answer = client.get(table="t", filter=f"id = {ids[0]} or id = {ids[-1]}", columns=["id", "blob"]).to_pydict()
        client.close()
        assert server.stderr().count("indexes were used") == 2
    size = lambda i: sizes[i % 4] if i % 100 == 17 else 10  # noqa: E731
    assert got == {"id": ids, "blob": [stock.payload(i, size(i)) for i in ids]}
    assert answer == {"id": [ids[0], ids[-1]], "blob": [stock.payload(i, size(i)) for i in (ids[0], ids[-1])]}


def test_indexes_are_described(binary, tmp_path):
    changes = Changes(tmp_path / "t.lance", random.Random(5), False)
    changes.append()
    with Server(binary, tmp_path) as server:
        client = Client(server.uri)
        (described,) = client.action("describe", table="t")
        client.close()
    want = [(x["name"], x["type"], x["fields"], len(x["fragment_ids"])) for x in changes.table.list_indices()]
    got = [(x["name"], x["type"], x["columns"], x["fragments"]) for x in described["indexes"]]
    assert sorted(got) == sorted(want)
    assert all(x["used"] and x["rows"] == 7000 for x in described["indexes"])


def test_lost_index_files(binary, tmp_path):
    """A table whose index files are gone answers as before, and the log says why it is slow."""
    changes = Changes(tmp_path / "t.lance", random.Random(4), False)
    want = sorted(changes.table.to_table(["id"], filter="key = 17 OR small = 5").column(0).to_pylist())
    for file in (tmp_path / "t.lance/_indices").rglob("*.lance"):
        file.unlink()
    with Server(binary, tmp_path) as server:
        client = Client(server.uri)
        got = client.get(table="t", filter="key = 17 OR small = 5", columns=["id"]).column(0).to_pylist()
        client.close()
        assert got == want
        assert "an index cannot be used" in server.stderr()
