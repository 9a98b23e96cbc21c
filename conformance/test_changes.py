"""Rows and columns that change and go, in tables of pylance, which goes on with what is left."""

import random

import adbc_driver_flightsql.dbapi as dbapi
import lance
import pyarrow as pa
import pytest
from referee.house import opened


@pytest.fixture
def house(binary, tmp_path):
    with opened(binary, tmp_path, external=[tmp_path]) as house:
        yield house


BLOB = lance.blob_field("img")


def picture(n):
    return None if n % 7 == 3 else bytes([n % 251]) * (n % 50) * (1 if n % 3 else 3000)


def pictures(numbers):
    return pa.table(
        [
            pa.array(numbers, pa.int64()),
            pa.array([f"n{n}" for n in numbers]),
            lance.blob_array([picture(n) for n in numbers]),
        ],
        schema=pa.schema([("id", pa.int64()), ("name", pa.string()), BLOB]),
    )


def rows_by_pylance(ds):
    table = ds.scanner(columns=["id", "name", "img"], blob_handling="all_binary").to_table()
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def contents(ds):
    return sorted(rows_by_pylance(ds))


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_deleted_rows(house, stable):
    """Both forms of deletion files, rows that pylance deleted before and deletes afterwards, whole fragments, an index
    of pylance's, compaction by it."""
    ds = lance.write_dataset(
        pictures(range(20000)),
        house.path("t"),
        max_rows_per_file=8000,
        enable_stable_row_ids=stable,
        data_storage_version="2.2",
    )
    ds.create_scalar_index("id", "BTREE")
    ds.delete("id % 10 = 1")
    left = {n for n in range(20000) if n % 10 != 1}

    def delete(condition, gone):
        assert house.run(f"DELETE FROM t WHERE {condition}") == len({n for n in left if gone(n)})
        left.difference_update({n for n in left if gone(n)})
        ds = house.lance("t")
        ds.validate()
        assert ds.count_rows() == len(left)
        assert set(ds.to_table(columns=["id"]).column(0).to_pylist()) == left
        probes = random.Random(1).sample(range(20000), 30)
        found = ds.to_table(columns=["id"], filter=f"id in ({', '.join(map(str, probes))})").column(0).to_pylist()
        assert sorted(found) == sorted(left.intersection(probes)), "through the index"
        assert house.rows("SELECT count(*), sum(id) FROM t") == [(len(left), sum(left))]

    delete("id = 17 OR id BETWEEN 4000 AND 4100", lambda n: n == 17 or 4000 <= n <= 4100)
    delete("id % 2 = 0", lambda n: n % 2 == 0)  # more than fit into an array
    delete("id >= 16000", lambda n: n >= 16000)  # a whole fragment
    delete("blob_size(img) IS NULL", lambda n: picture(n) is None)
    operation = house.lance("t").get_transactions()[0].operation
    assert type(operation).__name__ == "Delete"
    assert operation.predicate == "blob_size(img) IS NULL"
    ds = house.lance("t")
    ds.delete("id < 3000")
    left = {n for n in left if n >= 3000}
    lance.write_dataset(pictures(range(30000, 30010)), ds, mode="append")
    left |= set(range(30000, 30010))
    delete("id = 30003", lambda n: n == 30003)
    ds = house.lance("t")
    ds.optimize.compact_files()
    assert contents(ds) == sorted((n, f"n{n}", picture(n)) for n in left)
    delete("id < 5000", lambda n: n < 5000)
    assert house.run("TRUNCATE t") == len(left)
    assert house.lance("t").count_rows() == 0
    lance.write_dataset(pictures(range(5)), house.lance("t"), mode="append")
    assert house.rows("SELECT count(*) FROM t") == [(5,)]


def test_deletes_beside_pylance(house):
    """A handle of pylance's that is older than a delete of ours commits after it where rows differ, and loses where
    they do not; so do we."""
    lance.write_dataset(pictures(range(100)), house.path("t"), data_storage_version="2.2")
    old = house.lance("t")
    assert house.run("DELETE FROM t WHERE id < 10") == 10
    old.delete("id >= 90")
    assert house.rows("SELECT count(*) FROM t") == [(80,)]
    lance.write_dataset(pictures(range(200, 210)), old, mode="append")
    assert house.many("DELETE FROM t WHERE id = ?", [(n,) for n in (50, 51, 50, 200, 999)]) == 3
    ds = house.lance("t")
    ds.validate()
    assert set(ds.to_table(columns=["id"]).column(0).to_pylist()) == {*range(10, 50), *range(52, 90), *range(201, 210)}


@pytest.mark.parametrize("managed", [False, True], ids=["plain", "managed"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_updated_rows(house, tmp_path, stable, managed):
    """RWR-7, RWR-8: an update of other columns keeps every blob, copies no managed object, keeps row ids and the
    versions that made rows; pylance goes on, through its index too."""
    outside = tmp_path / "outside.bin"
    outside.write_bytes(bytes(range(200)))
    sizes = {0: 10, 1: 100_000, 2: 5_000_000, 3: None, 4: 0}
    values = [None if sizes[n % 5] is None else bytes([n]) * sizes[n % 5] for n in range(20)]
    values[7] = lance.Blob.from_uri(outside.as_uri(), position=5, size=50)
    want = [bytes(range(5, 55)) if isinstance(v, lance.Blob) else v for v in values]
    field = lance.blob_field("img")
    table = pa.table(
        [pa.array(range(20)), pa.array([f"n{n}" for n in range(20)]), lance.blob_array(values)],
        schema=pa.schema(
            [("id", pa.int64()), ("name", pa.string()), field],
            metadata={"lance.blob.managed": "true"} if managed else None,
        ),
    )
    lance.write_dataset(
        table,
        house.path("t"),
        max_rows_per_file=8,
        enable_stable_row_ids=stable,
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    ).create_scalar_index("name", "BTREE")
    objects = set((house.path("t") / "_blobs").rglob("*"))
    assert bool(objects) == managed
    meta = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"] if stable else []
    before = {row["id"]: row for row in house.lance("t").to_table(columns=["id", *meta]).to_pylist()}

    assert house.run("UPDATE t SET name = name || '!' WHERE id IN (1, 2, 7, 9, 14, 15, 16, 17)") == 8
    names = {n: f"n{n}" + ("!" if n in (1, 2, 7, 9, 14, 15, 16, 17) else "") for n in range(20)}
    ds = house.lance("t")
    ds.validate()
    assert contents(ds) == sorted((n, names[n], want[n]) for n in range(20))
    assert set((house.path("t") / "_blobs").rglob("*")) == objects
    if stable:
        after = {row["id"]: row for row in ds.to_table(columns=["id", *meta]).to_pylist()}
        for n in range(20):
            assert after[n]["_rowid"] == before[n]["_rowid"]
            assert after[n]["_row_created_at_version"] == before[n]["_row_created_at_version"]
            assert (after[n]["_row_last_updated_at_version"] == ds.version) == (names[n] != f"n{n}")
    assert ds.to_table(filter="name = 'n2!'", columns=["id"]).to_pylist() == [{"id": 2}]
    assert ds.to_table(filter="name in ('n2', 'n3')", columns=["id"]).to_pylist() == [{"id": 3}]
    assert house.rows("SELECT id FROM t WHERE name IN ('n2', 'n3', 'n9!') ORDER BY id") == [(3,), (9,)]
    fetched = dict(zip(*house.lance("t").to_table(columns=["id", "name"]).to_pydict().values(), strict=True))
    assert fetched == names

    assert house.run("UPDATE t SET img = ?, name = 'new' WHERE id = 2", (b"Z" * 3_000_000,)) == 1
    assert house.run("UPDATE t SET img = (SELECT img FROM t WHERE id = 7) WHERE id = 3") == 1
    names[2], want[2], want[3] = "new", b"Z" * 3_000_000, want[7]
    ds = house.lance("t")
    assert contents(ds) == sorted((n, names[n], want[n]) for n in range(20))
    operation = ds.get_transactions()[0].operation
    assert operation.update_mode == "rewrite_rows"
    assert operation.fields_for_preserving_frag_bitmap
    ds.update({"name": "'theirs'"}, where="id = 9")
    ds.delete("id = 0")
    names[9] = "theirs"
    assert house.run("UPDATE t SET name = 'all'") == 19
    ds = house.lance("t")
    ds.optimize.compact_files()
    assert contents(house.lance("t")) == sorted((n, "all", want[n]) for n in range(1, 20))
    assert house.rows("SELECT id FROM t WHERE blob_bytes(img) = '\\x02\\x02'::BLOB") == []


def test_updates_lose_to_updates(house):
    """The later of two changes of one row is refused and leaves nothing behind."""
    lance.write_dataset(pictures(range(50)), house.path("t"), data_storage_version="2.2")
    old = house.lance("t")
    assert house.run("UPDATE t SET name = 'ours' WHERE id = 5") == 1
    assert old.update({"name": "'theirs'"}, where="id = 6", conflict_retries=0)["num_rows_updated"] == 1
    with pytest.raises(OSError, match="concurrent writers"):
        lance.dataset(house.path("t"), version=1).update({"name": "'theirs'"}, where="id = 5", conflict_retries=0)
    assert dict(house.rows("SELECT id, name FROM t WHERE id < 8 AND id > 4")) == {5: "ours", 6: "theirs", 7: "n7"}


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_merged_rows(house, stable):
    """MERGE INTO: moved rows keep their ids, new ones get new ones, blobs that no clause sets stay; pylance goes on."""
    lance.write_dataset(
        pictures(range(100)),
        house.path("t"),
        max_rows_per_file=30,
        enable_stable_row_ids=stable,
        data_storage_version="2.2",
    ).create_scalar_index("id", "BTREE")
    lance.write_dataset(pictures(range(90, 120)), house.path("s"), data_storage_version="2.2")
    ids = dict(zip(*house.lance("t").to_table(columns=["id", "_rowid"]).to_pydict().values(), strict=True))
    merged = house.run(
        "MERGE INTO t USING (SELECT id, upper(name) AS name, img FROM s) s ON t.id = s.id "
        "WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED THEN INSERT WHEN NOT MATCHED BY SOURCE AND t.id < 5 THEN UPDATE SET img = NULL"
    )
    assert merged == 5 + 5 + 20 + 5
    want = {n: [f"n{n}", picture(n)] for n in range(120) if not (90 <= n < 100 and n % 2 == 0)}
    for n, row in want.items():
        row[0] = row[0].upper() if n >= 90 else row[0]
        row[1] = None if n < 5 else row[1]
    ds = house.lance("t")
    ds.validate()
    assert contents(ds) == sorted((n, *row) for n, row in want.items())
    assert ds.to_table(filter="id = 93", columns=["name"]).to_pylist() == [{"name": "N93"}]
    if stable:
        after = dict(zip(*ds.to_table(columns=["id", "_rowid"]).to_pydict().values(), strict=True))
        assert {n: i for n, i in after.items() if n < 100} == {n: i for n, i in ids.items() if n in want}
        assert len(set(after.values())) == len(after)
    upsert = (
        "MERGE INTO t USING (SELECT ?::BIGINT AS id, ? AS name, ?::BLOB AS img) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
    )
    assert house.many(upsert, [(10, "ten", b"10"), (500, "new", None), (11, None, b"x" * 100_000)]) == 3
    want.update({10: ["ten", b"10"], 500: ["new", None], 11: [None, b"x" * 100_000]})
    ds = house.lance("t")
    found = {n: [name, img] for n, name, img in rows_by_pylance(ds)}
    assert found == want
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(pictures(range(5, 8)))
    ds.optimize.compact_files()
    want.update({n: [f"n{n}", picture(n)] for n in range(5, 8)})
    assert {n: [name, img] for n, name, img in rows_by_pylance(house.lance("t"))} == want


@pytest.mark.parametrize("managed", [False, True], ids=["plain", "managed"])
def test_clauses_that_move_blobs_of_several_files(house, managed):
    """RWR-1: two clauses of one MERGE set the same columns of rows in different files; every blob stays what it is, in
    structs and lists too."""
    values = [bytes([n]) * 100_000 if n % 5 else None for n in range(20)]
    blobs = lance.blob_array(values)
    struct = pa.StructArray.from_arrays([pa.array(range(20)), blobs], fields=[pa.field("k", pa.int64()), BLOB])
    listed = pa.ListArray.from_arrays(pa.array(range(21), pa.int32()), blobs, type=pa.list_(lance.blob_field("item")))
    columns = {"id": pa.array(range(20)), "name": pa.array(["old"] * 20), "img": blobs, "st": struct, "l": listed}
    fields = [BLOB if name == "img" else pa.field(name, column.type) for name, column in columns.items()]
    schema = pa.schema(fields, metadata={"lance.blob.managed": "true"} if managed else None)
    lance.write_dataset(
        pa.table(list(columns.values()), schema=schema),
        house.path("t"),
        max_rows_per_file=5,
        data_storage_version="2.2",
    )
    merged = house.run(
        "MERGE INTO t USING (SELECT unnest(range(20)) AS id) s ON t.id = s.id "
        "WHEN MATCHED AND t.id >= 15 THEN UPDATE SET name = 'x' WHEN MATCHED AND t.id < 12 THEN UPDATE SET name = 'y'"
    )
    assert merged == 17
    rows = house.lance("t").scanner(blob_handling="all_binary").to_table().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {
            "id": n,
            "name": "x" if n >= 15 else "y" if n < 12 else "old",
            "img": value,
            "st": {"k": n, "img": value},
            "l": [value],
        }
        for n, value in enumerate(values)
    ]


def test_values_that_do_not_fit(house):
    """What a column of pylance's cannot hold is refused with its place by UPDATE and MERGE as by INSERT."""
    columns = {"id": range(3000), "three": pa.array([b"abc"] * 3000, pa.binary(3)), "nothing": pa.nulls(3000)}
    lance.write_dataset(pa.table(columns), house.path("t"), data_storage_version="2.2")
    for statement, error in [
        (
            "UPDATE t SET three = CASE WHEN id = 2500 THEN 'toolong'::BLOB ELSE 'xyz'::BLOB END",
            "three, row 2500 of those",
        ),
        ("UPDATE t SET nothing = 1", "column nothing, row 0 of those found"),
        (
            "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET three = ''::BLOB",
            "three, row 0",
        ),
        (
            "MERGE INTO t USING (SELECT -1 AS id) s USING (id) WHEN NOT MATCHED THEN INSERT (three) VALUES ('a')",
            "three, row 0",
        ),
    ]:
        with pytest.raises(dbapi.ProgrammingError, match=f"INVALID_ARGUMENT.*{error}"):
            house.run(statement)
    assert house.lance("t").version == 1


def test_columns_that_pylance_could_not_read(house):
    """Fields of packed structs, maps and fixed-size lists stay as they were made, and no fragment loses all its files:
    pylance reads other values, or nothing, after such a change."""
    pair = pa.array([{"a": n, "b": n + 10} for n in range(4)])
    map_ = pa.array([[("k", n)] for n in range(4)], pa.map_(pa.string(), pa.int64()))
    fields = [pa.field("packed", pair.type, metadata={"packed": "true"}), pa.field("m", map_.type)]
    lance.write_dataset(pa.table([pair, map_], schema=pa.schema(fields)), house.path("t"), data_storage_version="2.2")
    fixed = pa.FixedSizeListArray.from_arrays(pair, 2)
    lance.write_dataset(pa.table({"f": fixed}), house.path("f"), data_storage_version="2.2")
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    lance.write_dataset(
        pa.table([pa.array([1, 2])], schema=pa.schema([key])), house.path("k"), data_storage_version="2.2"
    )
    house.run("CREATE TABLE e (a INT)")
    house.run("INSERT INTO e VALUES (1), (2)")
    house.run("ALTER TABLE e ADD COLUMN b INT")
    for statement, error in [
        ("ALTER TABLE t DROP COLUMN packed.a", "packed struct"),
        ("ALTER TABLE t ADD COLUMN packed.c INT", "packed struct"),
        ("ALTER TABLE t DROP COLUMN m.entries.value", "keys and values"),
        ("ALTER TABLE t RENAME m.entries.key TO k", "keys and values"),
        ("ALTER TABLE t ADD COLUMN m.entries.more INT", "keys and values"),
        ("ALTER TABLE f ADD COLUMN f.element.c INT", "fixed-size list"),
        ("ALTER TABLE k ALTER COLUMN id DROP NOT NULL", "part of the primary key"),
        ("ALTER TABLE e DROP COLUMN a", "none of the columns that stay has a value in fragment 0"),
    ]:
        with pytest.raises(dbapi.Error, match=error):
            house.run(statement)
    house.run("UPDATE e SET b = NULL")
    house.run("ALTER TABLE e DROP COLUMN a")
    assert house.lance("e").to_table().to_pylist() == [{"b": None}] * 2
    assert house.lance("t").to_table(columns=["packed"]).column(0).to_pylist() == pair.to_pylist()
    house.run("ALTER TABLE f DROP COLUMN f.element.a")
    expected = [[{"b": 10}, {"b": 11}], [{"b": 12}, {"b": 13}]]
    assert house.lance("f").to_table().column(0).to_pylist() == expected
    assert [row for (row,) in house.rows("SELECT f FROM f")] == expected


def test_altered_columns(house):
    """Columns come, go, change names and nullability without a byte of data; pylance reads, writes and compacts
    after each of them, and changes columns itself in between."""
    nested = pa.array([{"a": n, "b": f"b{n}"} for n in range(20)])
    table = (
        pictures(range(20))
        .append_column("st", nested)
        .append_column("l", pa.array([[{"u": n, "v": n}] for n in range(20)]))
    )
    lance.write_dataset(table, house.path("t"), max_rows_per_file=8, data_storage_version="2.2")
    files = set((house.path("t") / "data").rglob("*"))

    def columns():
        ds = house.lance("t")
        ds.validate()
        rows = ds.scanner(blob_handling="all_binary").to_table()
        assert house.rows("SELECT count(*) FROM t") == [(rows.num_rows,)]
        assert house.table("SELECT * FROM t").to_pylist() == rows.to_pylist()
        return {f.name: str(f.type) if f.nullable else f"{f.type} not null" for f in ds.schema}

    house.run("ALTER TABLE t ADD COLUMN price DECIMAL(10, 2)")
    house.run("ALTER TABLE t ADD scan LANCE_BLOB")
    house.run("ALTER TABLE t ADD COLUMN IF NOT EXISTS PRICE INT")
    assert list(columns()) == ["id", "name", "img", "st", "l", "price", "scan"]
    house.run("ALTER TABLE t RENAME COLUMN name TO title")
    house.run("ALTER TABLE t RENAME st.b TO text")
    house.run("ALTER TABLE t DROP COLUMN st.a")
    house.run("ALTER TABLE t DROP COLUMN IF EXISTS gone")
    house.run("ALTER TABLE t DROP l.element.u")
    assert columns()["st"] == "struct<text: string>"
    assert columns()["l"] == "list<item: struct<v: int64>>"
    house.run("ALTER TABLE t ALTER COLUMN id SET NOT NULL")
    assert columns()["id"] == "int64 not null"
    assert set((house.path("t") / "data").rglob("*")) == files, "not a byte of data"
    assert house.run("UPDATE t SET price = id + 0.25, scan = img WHERE id < 10") == 10
    ds = house.lance("t")
    ds.alter_columns({"path": "title", "name": "caption"})
    ds.drop_columns(["l"])
    house.run("ALTER TABLE t ALTER COLUMN id DROP NOT NULL")
    house.run("ALTER TABLE t ADD COLUMN st.more INT")
    house.run("INSERT INTO t (id, scan, st) VALUES (100, 'x'::BLOB, {'text': 't', 'more': 7})")
    house.run("ALTER TABLE t ADD COLUMN tags STRUCT(a INT)[]")
    house.run("INSERT INTO t (id, tags) VALUES (101, [{'a': 1}])")
    house.run("ALTER TABLE t ADD COLUMN tags.element.b INT")
    columns()
    house.lance("t").optimize.compact_files()
    columns()
    assert house.rows("SELECT id, price, st.more FROM t WHERE id IN (3, 100) ORDER BY id") == [
        (3, 3.25, None),
        (100, None, 7),
    ]
    for statement, error in [
        ("ALTER TABLE t ALTER COLUMN price SET NOT NULL", "has nulls, the first in row 0"),
        ("ALTER TABLE t DROP COLUMN nope", "no column"),
        ("ALTER TABLE t ADD COLUMN Caption INT", "already"),
        ("ALTER TABLE t RENAME caption TO id", "already"),
        ("ALTER TABLE t DROP COLUMN img.data", "no column"),
        ('ALTER TABLE t RENAME caption TO "a.b"', "dot in its name"),
        ("ALTER TABLE t RENAME caption TO _rowid", "reserved"),
        ("ALTER TABLE t ADD COLUMN x NOSUCH", "NOSUCH"),
    ]:
        with pytest.raises(dbapi.Error, match=error):
            house.run(statement)
    columns()
