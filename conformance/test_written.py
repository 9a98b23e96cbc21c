"""Data files of this project, read by pylance: types × nulls × nesting × rows × versions × how pages are cut.

The short run has every pair of values of the dimensions once, the full one every three. Whatever is read is compared
to the last bit; pylance then compacts some of the tables and the values must survive.
"""

import json
import random
import subprocess
import zlib

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter
from referee import tables, written
from referee.compare import array_difference, one

RULES = "DESC-1 DESC-2 NUL-11"


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        strength = 3 if metafunc.config.getoption("--full") else 2
        chosen = tables.covering(strength, written.DIMENSIONS, written.Case)
        metafunc.parametrize("case", [pytest.param(c, id=label(c)) for c in chosen])


def label(case):
    return f"{case} {RULES if case.group == 'blobs' else ''}".strip()


@pytest.fixture(scope="session")
def program(tmp_path_factory, pytestconfig):
    built = tmp_path_factory.mktemp("bin") / "writefile"
    subprocess.run(["go", "build", "-o", str(built), "./tools/writefile"], cwd=pytestconfig.rootpath.parent, check=True)
    return built


@pytest.fixture
def writer(program, tmp_path):
    return written.Writer(program, tmp_path)


def scan(dataset, **options):
    return dataset.scanner(blob_handling="all_binary", **options).to_table()


def agree(want, got, what):
    assert got.num_rows == want.num_rows, what
    for name in want.schema.names:
        told = array_difference(one(want[name]), one(got[name]), name)
        assert told is None, f"{what}: {told}"


def check(dataset, rows, rng, blobs=False):
    """Reads the dataset in all ways: a scan, small batches, a slice, rows by position."""
    agree(rows, scan(dataset), "scan")
    if blobs:
        return  # pylance cannot read a list of blobs without one visible element among the selected rows
    agree(rows, scan(dataset, batch_size=997), "scan in batches of 997")
    start = rng.randrange(rows.num_rows)
    count = rng.randrange(rows.num_rows - start) + 1
    agree(rows.slice(start, count), scan(dataset, offset=start, limit=count), f"{count} rows from {start}")
    chosen = sorted(rng.sample(range(rows.num_rows), min(rows.num_rows, 30)))
    agree(rows.take(chosen), dataset.take(chosen), f"rows {chosen}")


def test_matrix(writer, seed, case):
    mixed = zlib.crc32(str(case).encode())
    schema, rows = written.rows_of(case, np.random.default_rng([seed, mixed]))
    copies = 2 if mixed % 3 == 0 else 1
    dataset = writer.write(schema, rows, case.version, copies, case.cut)
    rows = pa.concat_tables([rows] * copies)
    blobs = case.group == "blobs"
    check(dataset, rows, random.Random(f"{seed} {case}"), blobs)
    if copies > 1:
        dataset.optimize.compact_files()
        assert len(dataset.get_fragments()) == 1
        agree(rows, scan(dataset), "compacted")


# ---------------------------------------------------------------- what the matrix does not have


def lists(items, lengths):
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, items)


def numbers(n):
    return pa.array(np.arange(n) * 1_000_003 % (1 << 31), pa.int32())


def texts(n):
    return pa.array([f"value {i}" for i in range(n)])


def sparse(rows, every, make):
    """A list in each so-many-th row."""
    lengths = np.zeros(rows, np.int64)
    lengths[every - 1 :: every] = 2
    return lists(make(int(lengths.sum())), lengths)


def gaps(gap, values, make):
    """One row of lists, each so-many-th of which has an item."""
    lengths = np.zeros(gap * values + 17, np.int64)
    lengths[gap - 1 :: gap] = 1
    return lists(lists(make(int(lengths.sum())), lengths), [len(lengths)])


def shapes():
    bools = lambda n: pa.array(np.arange(n) % 3 == 0)  # noqa: E731
    words = lambda n: pa.array([f"w{i % 9}" for i in range(n)]).dictionary_encode()  # noqa: E731
    vectors = lambda n: pa.FixedSizeListArray.from_arrays(pa.array(np.arange(3 * n), pa.int16()), 3)  # noqa: E731
    yield "one list of 300 000 numbers among short ones", lists(numbers(300_010), [3, 2, 300_000, 5])
    yield "one list of 100 000 texts", lists(texts(100_000), [100_000])
    for name, make in (("numbers", numbers), ("texts", texts), ("booleans", bools), ("vectors", vectors)):
        yield f"{name} in every 1000th row", sparse(200_000, 1000, make)
        yield f"{name} in every 30 000th row", sparse(200_000, 30_000, make)
        yield f"{name} behind 3000 empty lists each", gaps(3000, 20, make)
        yield f"{name} behind 90 000 empty lists each", gaps(90_000, 3, make)
    yield "dictionary values behind 20 000 empty lists each", gaps(20_000, 5, words)
    yield "nothing but empty lists", lists(numbers(0), np.zeros(50_000, np.int64))
    yield "nothing but nulls in lists", lists(pa.nulls(50_000, pa.int32()), np.full(25_000, 2))
    yield "wide texts", pa.array([f"{i} " * 500 if i % 3 else None for i in range(5000)])
    yield "wide texts of every length", pa.array(["x" * (i * i) for i in range(300)])
    yield "wide texts that are all one", pa.array(["abc" * 200 if i % 5 else None for i in range(3000)])
    yield "one text of 9 MiB among short ones", pa.array(["a", "b" * (9 << 20), None, "c"])
    yield "wide bytes in lists", lists(pa.array([bytes([i % 256]) * 3000 for i in range(400)]), [100, 0, 300])
    yield "views of text", pa.array([f"view number {i}" if i % 4 else None for i in range(3000)], pa.string_view())
    yield "views of bytes", pa.array([b"%d" % i for i in range(3000)], pa.binary_view())
    yield "values of no width", pa.array([b"" if i % 3 else None for i in range(2000)], pa.binary(0))
    point = pa.struct([pa.field("x", pa.int32()), pa.field("name", pa.utf8())])
    yield (
        "structs in fixed-size lists",
        pa.array([None if i % 5 == 4 else [{"x": i, "name": f"p{i}"}, None] for i in range(3000)], pa.list_(point, 2)),
    )
    yield (
        "structs of wide texts in fixed-size lists",
        pa.array([[{"x": i, "name": "p" * i}] * 3 for i in range(500)], pa.list_(point, 3)),
    )


@pytest.mark.parametrize("version", ["2.2", "2.3"])
@pytest.mark.parametrize("column", [pytest.param(a, id=name) for name, a in shapes()])
def test_shapes(writer, version, column):
    if version == "2.3" and column.type == pa.binary(0):
        return  # pylance cannot read back its own either
    rows = pa.table({"c": column})
    kind = {pa.string_view(): pa.utf8(), pa.binary_view(): pa.binary()}.get(column.type, column.type)
    stored = rows.cast(pa.schema([pa.field("c", kind)]))  # views are stored as what they show
    dataset = writer.write(stored.schema, rows, version)
    check(dataset, stored, random.Random(1))


@pytest.mark.parametrize("version", ["2.2", "2.3"])
def test_json(writer, version):
    texts = [None if i % 6 == 5 else t for i, t in enumerate(written.json_of(range(3000)))]
    rows = pa.table({"j": pa.array(texts[:1000]), "l": lists(pa.array(texts), [3] * 1000)})
    mark = {"ARROW:extension:name": "arrow.json"}
    item = pa.field("item", pa.utf8(), metadata=mark)
    schema = pa.schema([pa.field("j", pa.utf8(), metadata=mark), pa.field("l", pa.list_(item))])
    got = writer.write(schema, rows, version, check=False).to_table()  # the own reader shows the stored form
    for name in rows.schema.names:
        for want, have in zip(rows[name].to_pylist(), got[name].to_pylist()):
            want, have = ([want], [have]) if name == "j" else (want, have)
            assert [v and json.loads(v) for v in want] == [v and json.loads(v) for v in have]


@pytest.mark.parametrize("version", ["2.2", "2.3"])
def test_packed_structs(writer, version):
    mark = {"lance-encoding:packed": "true"}
    n = 5000
    plain = pa.StructArray.from_arrays([numbers(n), pa.array(np.arange(n), pa.float64())], names=["a", "b"])
    text = pa.StructArray.from_arrays(
        [texts(n), pa.array(np.arange(n), pa.int16()), pa.FixedSizeListArray.from_arrays(numbers(2 * n), 2)],
        names=["a", "b", "c"],
        mask=pa.array(np.arange(n) % 4 == 1),
    )
    rows = pa.table({"plain": plain, "text": text})
    schema = pa.schema([f.with_metadata(mark) for f in rows.schema])
    dataset = writer.write(schema, rows, version)
    check(dataset, rows, random.Random(2))


@pytest.mark.parametrize("version", ["2.2", "2.3"])
def test_descriptors_of_references(writer, version):
    """DESC-1: references of any length; long ones share a table of symbols."""
    n = 5000
    descriptors = pa.StructArray.from_arrays(
        [
            pa.array(np.full(n, 3), pa.uint8()),
            pa.array(np.arange(n) * 7, pa.uint64()),
            pa.array(np.arange(n) + 1, pa.uint64()),
            pa.array(np.full(n, 0), pa.uint32()),
            pa.array([f"s3://bucket/some/folder/of/objects/object-{i % 700}.bin" for i in range(n)]),
        ],
        names=["kind", "position", "size", "blob_id", "blob_uri"],
        mask=pa.array(np.arange(n) % 10 == 3),
    )
    schema = pa.schema([written.blobs.blob("b", metadata={})])
    dataset = writer.write(schema, pa.table({"b": descriptors}), version, check=False)
    got = dataset.scanner(blob_handling="blobs_descriptions").to_table()
    agree(pa.table({"b": descriptors}), got, "descriptors")


@pytest.mark.parametrize("version", ["2.2", "2.3"], ids="NUL-5 {}".format)
def test_no_child_of_a_descriptor_is_null(tmp_path, version):
    """pylance's writer takes descriptors whose children may be null, and none whose children are. What a null child
    means to a reader (NUL-2, NUL-4) is tried on descriptors made by hand, in materialize."""
    numbers = {"kind": pa.uint8(), "position": pa.uint64(), "size": pa.uint64(), "blob_id": pa.uint32()}
    kind = pa.struct([*numbers.items(), ("blob_uri", pa.utf8())])
    schema = pa.schema([pa.field("b", kind, metadata={"lance-encoding:packed": "true"})])
    whole = {"kind": 0, "position": 0, "size": 0, "blob_id": 0, "blob_uri": ""}

    def write(name, values):
        path = str(tmp_path / name)
        with LanceFileWriter(path, schema=schema, version=version) as out:
            out.write_batch(pa.record_batch([pa.array(values, kind)], schema=schema))
        return LanceFileReader(path).read_all().to_table()["b"].to_pylist()

    assert write("whole", [whole, None, whole]) == [whole, None, whole]
    for child in kind:
        with pytest.raises(NotImplementedError):
            write(child.name, [whole, {**whole, child.name: None}])


def test_other_writers_go_on(writer):
    """pylance appends to, updates and deletes from a table that began with a file of this project."""
    rng = np.random.default_rng(3)
    case = written.Case("nested", "2.2", 1000, "random", "some", "one")
    schema, rows = written.rows_of(case, rng)
    schema = pa.schema([pa.field("id", pa.int64()), *schema])
    rows = rows.add_column(0, "id", pa.array(np.arange(1000)))
    dataset = writer.write(schema, rows, "2.2")
    dataset.insert(rows.set_column(0, "id", pa.array(np.arange(1000, 2000))))
    dataset.delete("id % 3 = 0")
    dataset.optimize.compact_files()
    left = np.array([i for i in range(2000) if i % 3])
    got = dataset.to_table().sort_by("id")
    assert got["id"].to_pylist() == left.tolist()
    agree(rows.take(left % 1000).drop_columns("id"), got.drop_columns("id"), "after delete and compaction")
    dataset.update({"id": "id + 1"}, where="id = 1000")
    assert dataset.count_rows() == len(left)
