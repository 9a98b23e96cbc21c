"""Tables that the golden fixtures lack, each with what pylance reads back.

Writes DIR/NAME.lance and DIR/NAME.VERSION.arrow, an Arrow file of that version with row ids and addresses, and prints
one JSON object: {"NAME": {"versions": [...], …}}.
"""
import datetime, decimal, json, os, sys

import lance
import numpy as np
import pyarrow as pa

out = sys.argv[1]
facts = {}
rng = np.random.default_rng(7)


def record(name, ds, version=None, columns=None, **more):
    ds = ds.checkout_version(version) if version else ds
    kw = {}
    if columns is None:
        kw = {"with_row_id": True, "with_row_address": True}
    table = ds.scanner(columns=columns, **kw).to_table().combine_chunks()
    with pa.OSFile(f"{out}/{name}.{ds.version}.arrow", "wb") as f, pa.ipc.new_file(f, table.schema) as w:
        w.write_table(table)
    fact = facts.setdefault(name, {"versions": []})
    fact["versions"].append(ds.version)
    fact.update(more)


def nulls(values, every=5):
    return [None if i % every == 3 else v for i, v in enumerate(values)]


def all_types(n, version):
    """One column of each type and shape that a file version takes."""
    tz = pa.timestamp("us", "Europe/Paris")
    cols = {
        "n": pa.nulls(n),
        "b": pa.array(nulls([i % 3 == 0 for i in range(n)])),
        "i8": pa.array(nulls([i % 100 for i in range(n)]), pa.int8()),
        "u64": pa.array(nulls([2**64 - 1 - i for i in range(n)]), pa.uint64()),
        "f16": pa.array(nulls([np.float16(i / 4) for i in range(n)]), pa.float16()),
        "f64": pa.array(nulls([i / 7 for i in range(n)])),
        "s": pa.array(nulls([f"text {i}" * (i % 4) for i in range(n)])),
        "ls": pa.array(nulls([f"large {i}" for i in range(n)]), pa.large_string()),
        "bin": pa.array(nulls([bytes([i % 256]) * (i % 9) for i in range(n)])),
        "fsb": pa.array(nulls([b"%03d" % (i % 1000) for i in range(n)]), pa.binary(3)),
        "d32": pa.array(nulls([datetime.date(2020, 1, 1 + i % 28) for i in range(n)])),
        "t64": pa.array(nulls([datetime.time(1, 2, i % 60) for i in range(n)])),
        "ts": pa.array(nulls([1_600_000_000_000_000 + i for i in range(n)]), tz),
        "dur": pa.array(nulls(list(range(n))), pa.duration("ns")),
        "dec": pa.array(nulls([decimal.Decimal(i) / 100 for i in range(n)]), pa.decimal128(20, 2)),
        "dec256": pa.array(nulls([decimal.Decimal(i) / 100 for i in range(n)]), pa.decimal256(50, 2)),
        "dict": pa.array(nulls([["red", "green", "blue"][i % 3] for i in range(n)])).dictionary_encode(),
        "vec": pa.array(nulls([[i, i + 1, i + 2] for i in range(n)]), pa.list_(pa.float32(), 3)),
        "list": pa.array(nulls([list(range(i % 4)) for i in range(n)]), pa.list_(pa.int32())),
        "llist": pa.array(nulls([[None, f"x{i}"] for i in range(n)]), pa.large_list(pa.string())),
        "st": pa.array(
            nulls([{"a": i, "in": {"t": None if i % 7 == 0 else f"t{i}", "l": [i] * (i % 3)}} for i in range(n)]),
            pa.struct([("a", pa.int64()), ("in", pa.struct([("t", pa.string()), ("l", pa.list_(pa.int16()))]))]),
        ),
        "lst": pa.array(
            nulls([[{"k": i, "v": None}, None][: i % 3] for i in range(n)]),
            pa.list_(pa.struct([("k", pa.int32()), ("v", pa.string())])),
        ),
        "ll": pa.array(nulls([[[i], None, []][: i % 4] for i in range(n)]), pa.list_(pa.list_(pa.int32()))),
    }
    if version >= "2.2":
        cols["m"] = pa.array(nulls([[(f"k{j}", j) for j in range(i % 3)] for i in range(n)]), pa.map_(pa.string(), pa.int32()))
        cols["j"] = pa.array(nulls(['{"b": %d, "a": [1.5, null, "x"]}' % i for i in range(n)]), pa.json_(pa.string()))
    if version == "2.0":
        # 2.0 keeps no nulls of structs and writes no decimal256
        del cols["dec256"]
        cols["st"] = pa.array([{"a": i, "in": {"t": f"t{i}", "l": [i] * (i % 3)}} for i in range(n)], cols["st"].type)
        cols["lst"] = pa.array([[{"k": i, "v": "v"}] * (i % 3) for i in range(n)], cols["lst"].type)
    return pa.table(cols)


for version in ("2.0", "2.1", "2.2", "2.3"):
    data = all_types(420, version)
    # copies: pylance trips over slices of some types in 2.0
    ds = lance.write_dataset(data.take(list(range(300))), f"{out}/types{version}.lance", data_storage_version=version, max_rows_per_file=170)
    ds = lance.write_dataset(data.take(list(range(300, 420))), f"{out}/types{version}.lance", mode="append", data_storage_version=version)
    ds.delete("i8 % 11 = 2")
    record(f"types{version}", ds)

# columns of several pages, rows of very different sizes
n = 3000
big = [None if i < 1000 else rng.bytes(12_000 + i) if i % 2 else b"" for i in range(n)]
ds = lance.write_dataset(
    pa.table({"id": pa.array(range(n)), "big": pa.array(big, pa.large_binary()), "text": [f"row {i}" for i in range(n)]}),
    f"{out}/pages.lance",
)
record("pages", ds)

# columns that no file lists, several files per fragment, stale ids
ds = lance.write_dataset(pa.table({"a": range(10), "b": [f"b{i}" for i in range(10)]}), f"{out}/evolved.lance", max_rows_per_file=4)
record("evolved", ds)
ds.add_columns({"c": "a * 2"})
ds.add_columns(pa.schema([
    pa.field("none", pa.int32()),
    pa.field("nost", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
    pa.field(
        "noblob",
        pa.struct([("data", pa.large_binary()), ("uri", pa.string())]),
        metadata={"ARROW:extension:name": "lance.blob.v2"},
    ),
]))
ds.drop_columns(["b"])
ds.alter_columns({"path": "a", "data_type": pa.int32()}, {"path": "c", "name": "cc"})
ds.delete("a in (0, 5)")
ds = lance.write_dataset(pa.table({"a": pa.array([100, 101], pa.int32()), "cc": pa.array([1, 2]), "none": pa.array([7, None], pa.int32())}), f"{out}/evolved.lance", mode="append")
record("evolved", ds, columns=["a", "cc", "none", "nost", "noblob"])

# manifest names of the first scheme
ds = lance.write_dataset(pa.table({"a": [1, 2]}), f"{out}/v1names.lance", enable_v2_manifest_paths=False)
for i in range(11):
    ds = lance.write_dataset(pa.table({"a": [i]}), f"{out}/v1names.lance", mode="append")
record("v1names", ds, version=3)
record("v1names", ds)

# a detached version
ds = lance.write_dataset(pa.table({"a": [1, 2, 3]}), f"{out}/detached.lance")
other = lance.LanceDataset.commit(
    f"{out}/detached.lance",
    lance.LanceOperation.Append(lance.fragment.write_fragments(pa.table({"a": [4]}), f"{out}/detached.lance")),
    read_version=1, detached=True,
)
record("detached", other)
record("detached", ds)

# stable row ids and lineage in hidden columns
ds = lance.write_dataset(
    pa.table({"a": range(60)}), f"{out}/lineage.lance", max_rows_per_file=20, enable_stable_row_ids=True,
)
ds.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "1"})
ds.update({"a": "a + 1000"}, where="a % 3 = 0")
ds.delete("a % 7 = 1")
lineage = ["a", "_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]
record("lineage", ds, columns=lineage)
ds.optimize.compact_files()
ds.update({"a": "a + 5"}, where="a > 1030")
record("lineage", ds, columns=lineage)

# branches, tags into branches, times
ds = lance.write_dataset(pa.table({"a": [1]}), f"{out}/refs.lance")
ds = lance.write_dataset(pa.table({"a": [2]}), f"{out}/refs.lance", mode="append")
branch = ds.create_branch("exp/one")
branch = lance.write_dataset(pa.table({"a": [10]}), branch, mode="append")
deeper = branch.create_branch("deeper")
deeper = lance.write_dataset(pa.table({"a": [20]}), deeper, mode="append")
ds.tags.create("on-branch", ("exp/one", branch.version))
ds.tags.create("main-1", 1)
facts["refs"] = {
    "versions": [],
    "times": {str(v["version"]): v["timestamp"].astimezone(datetime.timezone.utc).isoformat() for v in ds.versions()},
    "rows": {
        "": ds.to_table()["a"].to_pylist(),
        "exp/one": branch.to_table()["a"].to_pylist(),
        "deeper": deeper.to_table()["a"].to_pylist(),
    },
    "branch_version": branch.version,
}

# mixed file versions
ds = lance.write_dataset(pa.table({"a": [1, 2], "s": ["x", None]}), f"{out}/mixed.lance", data_storage_version="2.0")
try:
    ds = lance.write_dataset(pa.table({"a": [3], "s": ["z"]}), f"{out}/mixed.lance", mode="append", data_storage_version="2.1")
    facts["mixed"] = {"versions": []}
    record("mixed", ds)
except Exception as e:  # the reference decides which mixes it writes
    print(e, file=sys.stderr)
    raise

print(json.dumps(facts))
