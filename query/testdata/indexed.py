"""Writes tables with scalar indexes: indexed.py FOLDER. Each has the same columns, of which those with an index are
named after their type; rows are numbered by id."""

import decimal
import pathlib
import random
import sys

import lance
import pyarrow as pa

out = pathlib.Path(sys.argv[1])
BITMAPS = {"i8", "fb", "tms", "ls", "flag", "word"}
PLAIN = {"id", "st", "wide"}


def rows(start, n, seed):
    r = random.Random(seed)
    some = lambda make, share=0.03: [None if r.random() < share else make() for _ in range(n)]  # noqa: E731
    odd = [float("nan"), -float("nan"), 0.0, -0.0, float("inf"), -float("inf")]
    fraction = lambda: r.choice(odd) if r.random() < 0.05 else r.randint(-4000, 4000) / 4  # noqa: E731
    words = ["", "a", "ab", "abc", "b", "Ünï", "zz", "日本", "\U0001f600", "a\x00b"]
    text = lambda: r.choice(words) if r.random() < 0.1 else f"name {r.randint(0, 3000)}"  # noqa: E731
    cents = lambda: decimal.Decimal(r.randint(-99999, 99999)) / 100  # noqa: E731
    number = lambda low, high: lambda: r.randint(low, high)  # noqa: E731
    columns = {
        "id": pa.array(range(start, start + n), pa.int64()),
        "i8": pa.array(some(number(-20, 20)), pa.int8()),
        "i32": pa.array(some(number(-3000, 3000)), pa.int32()),
        "i64": pa.array(
            some(lambda: r.choice([-(2**63), 2**63 - 1, 2**53, 2**53 + 1, r.randint(-3000, 3000)])), pa.int64()
        ),
        "u64": pa.array(some(lambda: r.choice([2**64 - 1, 2**63, r.randint(0, 3000)])), pa.uint64()),
        "f16": pa.array(some(fraction)).cast(pa.float16()),
        "f32": pa.array(some(fraction), pa.float32()),
        "f64": pa.array(some(fraction), pa.float64()),
        "fb": pa.array(some(lambda: r.choice([*odd, 1.0, 2.5])), pa.float64()),
        "d128": pa.array(some(cents), pa.decimal128(12, 2)),
        "d256": pa.array(some(cents), pa.decimal256(30, 2)),
        "day": pa.array(some(number(-3000, 3000)), pa.int32()).cast(pa.date32()),
        "day64": pa.array(some(lambda: r.randint(-3000, 3000) * 86_400_000), pa.int64()).cast(pa.date64()),
        "t32": pa.array(some(number(0, 86_399)), pa.int32()).cast(pa.time32("s")),
        "t64": pa.array(some(number(0, 86_399_999_999_999)), pa.int64()).cast(pa.time64("ns")),
        "ts": pa.array(some(number(-(10**6), 10**6)), pa.int64()).cast(pa.timestamp("s")),
        "tms": pa.array(some(number(-20, 20)), pa.int64()).cast(pa.timestamp("ms")),
        "tus": pa.array(some(number(-3000, 3000)), pa.int64()).cast(pa.timestamp("us")),
        "tz": pa.array(some(number(-3000, 3000)), pa.int64()).cast(pa.timestamp("us", "Europe/Berlin")),
        "tns": pa.array(some(number(-3000, 3000)), pa.int64()).cast(pa.timestamp("ns")),
        "s": pa.array(some(text), pa.string()),
        "ls": pa.array(some(lambda: r.choice(words)), pa.large_string()),
        "bin": pa.array(some(lambda: r.randbytes(r.randint(0, 2))), pa.binary()),
        "fsb": pa.array(some(lambda: r.randbytes(2)), pa.binary(2)),
        "flag": pa.array(some(lambda: r.random() < 0.05), pa.bool_()),
        "word": pa.array(some(lambda: "ok" if r.random() < 0.98 else r.choice(words)), pa.string()),
        "sparse": pa.array(some(number(0, 50), 0.97), pa.int32()),
        "st": pa.array(
            some(lambda: {"x": r.choice([None, r.randint(0, 900)]), "y": "y"}),
            pa.struct([("x", pa.int32()), ("y", pa.string())]),
        ),
        "uniq": pa.array([k * 7 % n + start for k in range(n)], pa.int64()),
        "wide": pa.array([f"{k:0300}" for k in range(start, start + n)], pa.string()),
    }
    return pa.table(columns)


def make(name, n=9000, stable=False, nested=True):
    ds = lance.write_dataset(
        rows(0, n, name), out / f"{name}.lance", max_rows_per_file=n // 3 + 1, enable_stable_row_ids=stable
    )
    columns = [c for c in ds.schema.names if c not in PLAIN]
    if nested:  # the reference fails to extend such an index
        columns.append("st.x")
    for column in columns:
        kind = "BITMAP" if column in BITMAPS else "BTREE"
        ds.create_scalar_index(column, kind, name=f"{column.replace('.', '_')}_idx")
    return ds


def append(ds, n, seed):
    return lance.write_dataset(rows(ds.count_rows() + 100_000, n, seed), ds.uri, mode="append")


def update(ds, low, high):
    ds.update({"i32": "i32 + 5", "s": "concat(s, '!')", "word": "'changed'"}, where=f"id >= {low} and id < {high}")


make("plain")
ds = make("deleted", 12_000)
ds.delete("id % 3 = 1 or id between 3001 and 6100")
append(make("appended"), 2500, 1)
update(make("updated"), 2500, 3700)
ds = make("eager")
ds.delete("id % 4 = 1")
ds.optimize.compact_files(target_rows_per_fragment=100_000)
ds = make("deferred")
ds.delete("id % 4 = 1")
ds.optimize.compact_files(target_rows_per_fragment=100_000, defer_index_remap=True)
ds = make("moved", nested=False)
ds.delete("id % 4 = 1")
ds.optimize.compact_files(target_rows_per_fragment=100_000, defer_index_remap=True)
ds = append(ds, 2500, 8)
ds.delete("id % 7 = 1")
ds.optimize.compact_files(target_rows_per_fragment=100_000, defer_index_remap=True)
ds = append(ds, 1500, 9)
ds.optimize.optimize_indices(num_indices_to_merge=0)
update(ds, 2500, 3000)
ds = make("lost")  # what the reference then says of fragment 4 is not true
ds.optimize.compact_files(target_rows_per_fragment=100_000, defer_index_remap=True)
ds.delete("id % 5 = 1")
ds.optimize.compact_files(target_rows_per_fragment=100_000)
ds = append(make("segments", nested=False), 2500, 2)
ds.optimize.optimize_indices(num_indices_to_merge=0)
ds = append(ds, 1500, 3)
ds.optimize.optimize_indices(num_indices_to_merge=0)
ds = append(make("merged", nested=False), 2500, 4)
ds.delete("id % 7 = 2")
ds.optimize.optimize_indices(num_indices_to_merge=1)
ds = append(make("stable", stable=True), 2500, 5)
update(ds, 1000, 1900)
ds.delete("id % 5 = 1")
update(ds, 1500, 2500)
ds.optimize.compact_files(target_rows_per_fragment=100_000)
ds = append(make("stable2", stable=True, nested=False), 2500, 6)
ds.optimize.optimize_indices()
ds.update({"wide": "'w'"}, where="id % 11 = 4")
ds.delete("id % 5 = 1")
ds = make("columns")
ds.drop_index("i32_idx")
ds.alter_columns({"path": "i32", "data_type": pa.int64()})
ds.drop_columns(["f64"])
ds.merge(pa.table({"id": pa.array(range(9000), pa.int64()), "more": pa.array(range(9000), pa.int64())}), "id")
ds = make("source")
ds.delete("id % 6 = 1")
ds.shallow_clone(out / "clone.lance", reference=ds.version)
clone = append(lance.dataset(out / "clone.lance"), 2000, 7)
clone.delete("id % 6 = 2")
ds = make("rewritten", nested=False)
ds.merge_insert("id").when_matched_update_all().execute(
    pa.table({"id": pa.array(range(0, 9000, 3), pa.int64()), "i32": pa.array(range(3000), pa.int32())})
)
r = random.Random("large")
n = 300_000
keys = list(range(n))
r.shuffle(keys)
large = {
    "id": pa.array(range(n), pa.int64()),
    "key": pa.array(keys, pa.int64()),
    "group": pa.array([r.randrange(500) for _ in range(n)], pa.int16()),
    "payload": pa.array([r.randbytes(80) for _ in range(n)], pa.binary()),
}
ds = lance.write_dataset(pa.table(large), out / "large.lance", max_rows_per_file=100_000)
ds.create_scalar_index("key", "BTREE")
ds.create_scalar_index("group", "BITMAP")
n = 2_000_000  # what a compaction notes is then too much for the manifest
ds = lance.write_dataset(
    pa.table({"id": pa.array(range(n), pa.int64()), "key": pa.array([k * 7919 % n for k in range(n)], pa.int64())}),
    out / "noted.lance",
    max_rows_per_file=n // 2,
)
ds.create_scalar_index("key", "BTREE")
ds.delete("id % 3 = 1")
ds.optimize.compact_files(target_rows_per_fragment=10_000_000, defer_index_remap=True)
