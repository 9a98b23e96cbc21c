"""Puts of mode merge, beside pylance's merge_insert of the same rows into a twin of the table."""

import concurrent.futures
import random

import lance
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from referee.client import Client
from referee.server import Server


class House:
    def __init__(self, root, uri, client):
        self.root, self.uri, self.client = root, uri, client

    def path(self, name):
        return self.root / f"{name}.lance"

    def lance(self, name):
        return lance.dataset(self.path(name))

    def merge(self, rows, name="t", on=("id",), **more):
        return self.client.put(rows, table=name, mode="merge", on=list(on), **more)


@pytest.fixture
def house(binary, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    with Server(binary, root, external=[tmp_path]) as server:
        client = Client(server.uri)
        yield House(root, server.uri, client)
        client.close()
        server.check_alive()
        server.check_panics()


BLOB = lance.blob_field("img")
SIZES = {0: 10, 1: 100_000, 2: 5_000_000, 3: None, 4: 0}


def picture(n, salt=0):
    size = SIZES[n % 5]
    return None if size is None else bytes([(n + salt) % 251]) * size


def rows(numbers, salt=0, columns=("id", "name", "img"), managed=False):
    """Rows with these keys; salt makes them others."""
    made = {
        "id": (pa.field("id", pa.int64()), pa.array(numbers, pa.int64())),
        "name": (pa.field("name", pa.string()), pa.array([f"n{n}.{salt}" for n in numbers])),
        "img": (BLOB, lance.blob_array([None if n is None else picture(n, salt) for n in numbers])),
    }
    metadata = {"lance.blob.managed": "true"} if managed else None
    return pa.table([made[c][1] for c in columns], schema=pa.schema([made[c][0] for c in columns], metadata=metadata))


def contents(ds):
    table = ds.scanner(columns=["id", "name", "img"], blob_handling="all_binary").to_table()
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr)


def lineage(ds, key="id"):
    """What stable rows keep: ids, and which version made and changed them."""
    names = [key, "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    return sorted(
        (tuple(r[n] for n in names) for r in ds.scanner(columns=names, with_row_id=True).to_table().to_pylist()),
        key=repr,
    )


@pytest.mark.parametrize("managed", [False, True], ids=["plain", "managed"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_merged_rows(house, stable, managed):
    """RWR-7: rows in the place of others and new ones between them, in several batches, in a table with deleted rows
    and an index: the same as after pylance's merge_insert, which then goes on with what we left."""
    for name in ("t", "twin"):
        ds = lance.write_dataset(
            rows(range(40), managed=managed),
            house.path(name),
            max_rows_per_file=16,
            enable_stable_row_ids=stable,
            data_storage_version="2.2",
        )
        ds.create_scalar_index("id", "BTREE")
        ds.delete("id % 8 = 5")
    order = [*range(30, 50), *range(3), 21, 60]
    random.Random(3).shuffle(order)
    source = rows(order, salt=7)
    answer = house.client.put(source, chunk=6, table="t", mode="merge", on=["id"])
    stats = (
        house.lance("twin").merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
    )
    assert answer == {"version": 4, "rows": len(order), "updated": stats["num_updated_rows"]}
    ds, twin = house.lance("t"), house.lance("twin")
    ds.validate()
    assert contents(ds) == contents(twin)
    if stable:
        ours, theirs = lineage(ds), lineage(twin)
        old = {n for n in range(40)}
        assert [r for r in ours if r[0] in old] == [r for r in theirs if r[0] in old]
        assert sorted(r[1] for r in ours) == sorted(r[1] for r in theirs), "ids of new rows are the next ones"
        assert [r[2:] for r in ours if r[0] not in old] == [r[2:] for r in theirs if r[0] not in old]
    assert isinstance(ds.get_transactions()[0].operation, lance.LanceOperation.Update)
    for n in (1, 21, 33, 45, 5, 70):
        found = ds.to_table(columns=["name"], filter=f"id = {n}").column(0).to_pylist()
        assert found == twin.to_table(columns=["name"], filter=f"id = {n}").column(0).to_pylist(), "through the index"
    again = rows(range(45, 55), salt=8)
    house.merge(again)
    merged(twin, again)
    ds = house.lance("t")
    ds.optimize.compact_files()
    ds.optimize.optimize_indices()
    ds.validate()
    assert contents(ds) == contents(house.lance("twin"))
    more = rows(range(50, 58), salt=9)
    assert contents(merged(ds, more)) == contents(merged(house.lance("twin"), more))


def merged(ds, source):
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
    return lance.dataset(ds.uri)


@pytest.mark.parametrize("managed", [False, True], ids=["plain", "managed"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_columns_that_are_left_out(house, stable, managed):
    """RWR-7: columns that the source does not have keep their values in matched rows, blobs too, and are null in new
    ones, as with pylance; of a managed table no blob is copied."""
    for name in ("t", "twin"):
        ds = lance.write_dataset(
            rows(range(30), managed=managed),
            house.path(name),
            max_rows_per_file=11,
            enable_stable_row_ids=stable,
            data_storage_version="2.2",
        )
        ds.delete("id = 4")
    objects = sorted(p.name for p in house.path("t").rglob("*.blob"))
    order = [25, 99, 2, 3, 4, 28, 98, 97, 0]
    source = rows(order, salt=5, columns=("name", "id"))
    answer = house.client.put(source, chunk=4, table="t", mode="merge", on=["id"])
    assert answer == {"version": 3, "rows": 9, "updated": 5}
    ds = house.lance("t")
    ds.validate()
    twin = merged(house.lance("twin"), rows(order, salt=5, columns=("id", "name")))
    assert contents(ds) == contents(twin)
    if managed:
        assert sorted(p.name for p in house.path("t").rglob("*.blob")) == objects
    ds.optimize.compact_files()
    assert contents(house.lance("t")) == contents(twin)


def test_keys(house):
    """Nulls are equal to nothing and come in as new rows, as with pylance; keys of several columns; twice the same key
    is refused, in the source with both rows, in the table by name; nothing is left of what was refused."""
    table = pa.table({"a": pa.array([1, 1, None, 2]), "b": pa.array(["x", "y", "z", None]), "v": [1, 2, 3, 4]})
    for name in ("t", "twin"):
        lance.write_dataset(table, house.path(name), data_storage_version="2.2")
    source = pa.table({"v": [10, 20, 30, 40], "b": pa.array(["y", "z", None, "q"]), "a": pa.array([1, None, 2, 1])})
    assert house.merge(source, on=["a", "b"])["updated"] == 1
    twin = house.lance("twin").merge_insert(["a", "b"]).when_matched_update_all().when_not_matched_insert_all()
    twin.execute(source.select(["a", "b", "v"]))
    ordered = [("v", "ascending")]
    assert house.lance("t").to_table().sort_by(ordered) == house.lance("twin").to_table().sort_by(ordered)

    files = sorted(p for p in house.path("t").rglob("*") if p.is_file())
    refused = [
        (
            pa.table({"a": [7, 8, 7], "b": ["k", "k", "k"], "v": [1, 2, 3]}),
            ["a", "b"],
            ["[a b]", "7, k", "rows 0 and 2"],
        ),
        (pa.table({"a": [1], "v": [1]}), ["a"], ["column a", "several rows", "MERGE INTO"]),
        (pa.table({"v": [1]}), ["a"], ['no column "a"']),
        (pa.table({"a": [1], "c": [1]}), ["a"], ['no column "c"']),
        (pa.table({"a": [1]}), ["a.x"], ['no column "a.x"', "whole columns"]),
        (pa.table({"a": ["1"]}), ["a"], ["a", "int64"]),
    ]
    for rows_, on, texts in refused:
        with pytest.raises((pa.ArrowInvalid, fl.FlightError)) as e:
            house.merge(rows_, on=on)
        for text in texts:
            assert text in str(e.value)
    for command in ({"mode": "merge"}, {"mode": "append", "on": ["a"]}, {"mode": "merge", "on": []}):
        with pytest.raises(pa.ArrowInvalid, match="on"):
            house.client.put(table, table="t", **command)
    with pytest.raises(pa.ArrowKeyError, match="absent"):
        house.merge(table, name="absent", on=["a"])
    assert sorted(p for p in house.path("t").rglob("*") if p.is_file()) == files
    assert house.merge(source.slice(0, 0), on=["a"]) == {"version": 2, "rows": 0, "updated": 0}


KEYS = {
    "bool": pa.array([True, False]),
    "int8": pa.array([-1, 5], pa.int8()),
    "uint64": pa.array([2**64 - 1, 0], pa.uint64()),
    "float64": pa.array([0.5, -1e300]),
    "string": pa.array(["", "ü"]),
    "large_string": pa.array(["a", "b"], pa.large_string()),
    "binary": pa.array([b"", b"\0"]),
    "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
    "date": pa.array([1, 2], pa.date32()),
    "time": pa.array([1, 2], pa.time64("us")),
    "timestamp": pa.array([1, 2], pa.timestamp("us", "UTC")),
    "duration": pa.array([1, 2], pa.duration("s")),
    "decimal": pa.array([1, 2], pa.int64()).cast(pa.decimal128(30, 2)),
    "dictionary": pa.array(["a", "b"]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", KEYS)
def test_types_of_keys(house, kind):
    keys = KEYS[kind]
    first = pa.table([keys, pa.array([1, 2])], names=["k", "v"])
    lance.write_dataset(first, house.path("t"), data_storage_version="2.2")
    second = pa.table([pa.concat_arrays([keys[1:]]), pa.array([20])], names=["k", "v"])
    assert house.merge(second, on=["k"])["updated"] == 1
    ds = house.lance("t")
    ds.validate()
    assert sorted(ds.to_table(columns=["v"]).column(0).to_pylist()) == [1, 20]


def test_blobs_in_all_shapes(house, tmp_path):
    """SCH-10: bytes, and both logical shapes with objects outside of the table."""
    outside = tmp_path / "outside.bin"
    outside.write_bytes(bytes(range(200)))
    lance.write_dataset(rows(range(6)), house.path("t"), data_storage_version="2.2")
    plain = pa.table({"id": [0, 10], "img": pa.array([b"plain", None], pa.large_binary())})
    house.merge(plain)
    complete = pa.StructArray.from_arrays(
        [
            pa.array([None, b"struct"], pa.large_binary()),
            pa.array([outside.as_uri(), None]),
            pa.array([5, None], pa.uint64()),
            pa.array([50, None], pa.uint64()),
        ],
        fields=[
            pa.field("data", pa.large_binary()),
            pa.field("uri", pa.string()),
            pa.field("position", pa.uint64()),
            pa.field("size", pa.uint64()),
        ],
    )
    mark = {"ARROW:extension:name": "lance.blob.v2"}
    marked = pa.table(
        [pa.array([1, 11]), complete],
        schema=pa.schema([pa.field("id", pa.int64()), pa.field("img", complete.type, metadata=mark)]),
    )
    house.merge(marked, blobs={"external": "reference", "allow_outside_bases": True})
    ds = house.lance("t")
    ds.validate()
    got = {r[0]: r[2] for r in contents(ds)}
    want = {n: picture(n) for n in range(6)} | {0: b"plain", 10: None, 1: bytes(range(5, 55)), 11: b"struct"}
    assert got == want


def test_merges_beside_other_writers(house):
    """Merges of the same keys at once, beside appends and deletes by pylance: each key stays one row, the rows of the
    last merge are whole, and what others wrote is there."""
    lance.write_dataset(rows(range(20)), house.path("t"), data_storage_version="2.2")

    def merge(salt):
        client = Client(house.uri)
        try:
            return client.put(rows(range(10, 30), salt=salt), table="t", mode="merge", on=["id"])
        finally:
            client.close()

    def append(n):
        lance.write_dataset(rows([100 + n]), house.lance("t"), mode="append")

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        merges = [pool.submit(merge, salt) for salt in range(1, 5)]
        appends = [pool.submit(append, n) for n in range(4)]
        versions = {f.result()["version"]: salt for salt, f in enumerate(merges, 1)}
        for f in appends:
            f.result()
    ds = house.lance("t")
    ds.validate()
    assert len(versions) == 4
    last = versions[max(versions)]
    want = {n: f"n{n}.0" for n in [*range(10), *range(100, 104)]} | {n: f"n{n}.{last}" for n in range(10, 30)}
    got = ds.to_table(columns=["id", "name"]).to_pydict()
    assert sorted(zip(got["id"], got["name"], strict=True)) == sorted(want.items())
