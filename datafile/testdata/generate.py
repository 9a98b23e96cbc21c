"""Golden data files: written by the reference, with what they must read as.

    python generate.py        (pylance 14.0.2, pyarrow 26.0.1)

Each folder below golden/ holds data.lance, the manifest of its table (for the
field tree) and expected.arrow, the rows as the reference reads them.
"""
import datetime
import decimal
import glob
import os
import random
import shutil
import tempfile

import lance
import numpy as np
import pyarrow as pa

HERE = os.path.dirname(os.path.abspath(__file__))


def nulls(values, rate, rng):
    return [None if rng.random() < rate else v for v in values]


def text(rng, low, high):
    return "".join(rng.choices("abcdefgh ", k=rng.randint(low, high)))


def scalars(rng, n=150):
    day = datetime.date(2020, 1, 1)
    ints = [rng.randint(-100, 100) for _ in range(n)]
    cols = {}
    for bits in (8, 16, 32, 64):
        cols[f"i{bits}"] = pa.array(nulls(ints, 0.2, rng), f"int{bits}")
        cols[f"u{bits}"] = pa.array([abs(v) for v in ints], f"uint{bits}")
    cols["f16"] = pa.array(np.array(ints, np.float16))
    cols["f32"] = pa.array(nulls([v / 3 for v in ints], 0.1, rng), pa.float32())
    cols["f64"] = pa.array([v / 7 for v in ints], pa.float64())
    cols["yes"] = pa.array(nulls([v > 0 for v in ints], 0.3, rng), pa.bool_())
    cols["d32"] = pa.array([day + datetime.timedelta(v) for v in ints], pa.date32())
    cols["d64"] = pa.array([day + datetime.timedelta(v) for v in ints], pa.date64())
    cols["t32"] = pa.array([abs(v) for v in ints], pa.int32()).cast(pa.time32("s"))
    cols["t64"] = pa.array([abs(v) for v in ints], pa.int64()).cast(pa.time64("ns"))
    cols["ts"] = pa.array(ints, pa.int64()).cast(pa.timestamp("us", "+08:00"))
    cols["span"] = pa.array(ints, pa.int64()).cast(pa.duration("ms"))
    cols["dec128"] = pa.array([decimal.Decimal(v).scaleb(-2) for v in ints], pa.decimal128(20, 2))
    cols["dec256"] = pa.array([decimal.Decimal(v).scaleb(-2) for v in ints], pa.decimal256(50, 2))
    cols["fsb"] = pa.array([b"%05d" % abs(v) for v in ints], pa.binary(5))
    cols["none"] = pa.nulls(n)
    cols["void"] = pa.nulls(n, pa.int32())
    cols["same"] = pa.array([7] * n, pa.int32())
    cols["same_text"] = pa.array(["again and again"] * n)
    cols["s"] = pa.array(nulls([text(rng, 0, 9) for _ in range(n)], 0.2, rng))
    cols["ls"] = pa.array([text(rng, 0, 9) for _ in range(n)], pa.large_string())
    cols["b"] = pa.array([text(rng, 0, 9).encode() for _ in range(n)], pa.binary())
    cols["lb"] = pa.array(nulls([text(rng, 0, 9).encode() for _ in range(n)], 0.5, rng), pa.large_binary())
    words = [text(rng, 3, 9) for _ in range(6)]
    cols["dict"] = pa.array(nulls([rng.choice(words) for _ in range(n)], 0.2, rng)).dictionary_encode()
    return pa.table(cols)


def codecs(rng, n=1500):
    runs = [v for v in range(30) for _ in range(n // 30)]
    words = [text(rng, 10, 20) for _ in range(9)]
    fields, arrays = [], []

    def add(name, array, **metadata):
        fields.append(pa.field(name, array.type, metadata={f"lance-encoding:{k.replace('_', '-')}": v for k, v in metadata.items()}))
        arrays.append(array)

    add("runs", pa.array(runs, pa.int32()))
    add("packed", pa.array([rng.randint(0, 60) for _ in range(n)], pa.uint16()))
    add("bytes", pa.array([rng.randint(0, 5) for _ in range(n)], pa.uint8()))
    add("wide", pa.array([rng.randint(0, 2000) for _ in range(n)], pa.int64()))
    add("words", pa.array([rng.choice(words) for _ in range(n)]))
    add("numbers", pa.array([rng.choice([3**30, 5**20, 7**15]) for _ in range(n)], pa.int64()))
    add("fsst", pa.array(["https://example.org/pictures/%06d.png" % i for i in range(n)]))
    add("zstd", pa.array([text(rng, 20, 40) for _ in range(n // 2)] + [None] * (n - n // 2)), compression="zstd")
    add("lz4", pa.array([float(i) for i in range(n)], pa.float32()), compression="lz4", bss="on")
    add("plain", pa.array([i for i in range(n)], pa.int32()), compression="none")
    return pa.table(arrays, schema=pa.schema(fields))


def wide(rng, n=60):
    vectors = [[rng.random() for _ in range(80)] for _ in range(n)]
    packed = [{"a": i, "b": i / 2} for i in range(n)]
    fields = [
        pa.field("long", pa.string()),
        pa.field("huge", pa.large_binary()),
        pa.field("vector", pa.list_(pa.float32(), 80)),
        pa.field("small", pa.list_(pa.int16(), 3)),
        pa.field("bits", pa.list_(pa.bool_(), 5)),
        pa.field("fixed", pa.binary(300)),
        pa.field("packed", pa.struct([("a", pa.int32()), ("b", pa.float64())]), metadata={"lance-encoding:packed": "true"}),
    ]
    cols = [
        nulls([text(rng, 256, 300) for _ in range(n)], 0.2, rng),
        [None if i % 9 == 0 else text(rng, 10, 40).encode() if i else b"z" * 40_000 for i in range(n)],
        nulls(vectors, 0.1, rng),
        nulls([[i, None if i % 4 == 0 else -i, 1] for i in range(n)], 0.1, rng),
        [[bool(i & 1 << k) for k in range(5)] for i in range(n)],
        nulls([b"%0300d" % i for i in range(n)], 0.2, rng),
        packed,
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(cols, fields)], schema=pa.schema(fields))


def nested(rng, n=200):
    def ints():
        return None if rng.random() < 0.1 else [None if rng.random() < 0.1 else rng.randint(0, 99) for _ in range(rng.randint(0, 4))]

    cols = {
        "li": (pa.list_(pa.int32()), [ints() for _ in range(n)]),
        "lls": (pa.large_list(pa.list_(pa.string())), [None if rng.random() < 0.1 else [None if rng.random() < 0.1 else [text(rng, 0, 3) for _ in range(rng.randint(0, 2))] for _ in range(rng.randint(0, 3))] for _ in range(n)]),
        "st": (pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string()), ("d", pa.list_(pa.bool_()))]))]),
               [None if rng.random() < 0.2 else {"a": i, "b": None if i % 5 == 0 else {"c": None if i % 3 == 0 else str(i), "d": [True] * (i % 3)}} for i in range(n)]),
        "ls": (pa.list_(pa.struct([("x", pa.float64()), ("y", pa.list_(pa.int8()))])),
               [None if rng.random() < 0.1 else [None if rng.random() < 0.1 else {"x": k / 2, "y": ints()} for k in range(rng.randint(0, 3))] for _ in range(n)]),
        "long_row": (pa.list_(pa.int32()), [list(range(9000)) if i == 3 else [i] * (i % 4) for i in range(n)]),
        "rare": (pa.list_(pa.string()), [["hit", None] if i % 50 == 7 else [] if i % 2 else None for i in range(n)]),
        "deep": (pa.list_(pa.list_(pa.list_(pa.int16()))), [[[[i], []], []] if i % 3 else None for i in range(n)]),
        "map": (pa.map_(pa.string(), pa.int32()), [None if i % 7 == 0 else [("k%d" % k, k) for k in range(i % 3)] for i in range(n)]),
    }
    if nested.version == "2.1":
        del cols["map"]
    return pa.table({k: pa.array(v, t) for k, (t, v) in cols.items()})


def sparse(rng, n=900):
    """Mostly null: 2.3 keeps structure apart from values for these."""
    return pa.table({
        "text": pa.array(nulls([text(rng, 300, 320) if i % 2 else "same text " * 40 for i in range(n)], 0.99, rng)),
        "number": pa.array(nulls(list(range(n)), 0.98, rng), pa.int32()),
        "vector": pa.array(nulls([[float(k) for k in range(64)]] * n, 0.99, rng), pa.list_(pa.float32(), 64)),
        "lists": pa.array([[i, i + 1] if i % 100 == 0 else [] for i in range(n)], pa.list_(pa.int32())),
        "texts": pa.array([["one", None] if i % 100 == 0 else [] for i in range(n)], pa.list_(pa.string())),
        "dict": pa.array([rng.choice(["red", "blue"]) if i % 60 == 0 else None for i in range(n)]).dictionary_encode(),
        "vecs": pa.array([[[i % 100, 2], [3, None]] if i % 100 == 0 else [] for i in range(n)], pa.list_(pa.list_(pa.int8(), 2))),
    })


def fixed_structs(rng, n=120):
    item = pa.struct([("a", pa.int32()), ("b", pa.string())])
    return pa.table({"only": pa.array([None if i % 6 == 0 else [{"a": i, "b": str(i)}, {"a": None, "b": None}] for i in range(n)], pa.list_(item, 2))})


def marked(**metadata):
    return {f"lance-encoding:{k.replace('_', '-')}": v for k, v in metadata.items()}


def table_of(cols):
    """Columns as (name, type, values[, metadata])."""
    fields = [pa.field(c[0], c[1], metadata=c[3] if len(c) > 3 else None) for c in cols]
    return pa.table([pa.array(c[2], c[1].value_type).dictionary_encode().cast(c[1]) if pa.types.is_dictionary(c[1]) else pa.array(c[2], c[1]) for c in cols], schema=pa.schema(fields))


def constants(rng, n=130):
    """Pages of one value, with and without levels."""
    def lists(v):
        return [None if i % 5 == 0 else [v] * (i % 4) for i in range(n)]

    def some(v):
        return [v if i % 3 else None for i in range(n)]

    cols = [
        ("int", pa.int32(), some(7)), ("ints", pa.list_(pa.int32()), lists(7)), ("yes", pa.bool_(), [True] * n),
        ("bits", pa.list_(pa.bool_()), lists(True)), ("text", pa.string(), some("same")), ("texts", pa.list_(pa.string()), lists("same")),
        ("wide", pa.binary(50), some(b"x" * 50)), ("wides", pa.list_(pa.binary(50)), lists(b"x" * 50)), ("decimal", pa.decimal256(50, 1), [decimal.Decimal("5.5")] * n),
        ("long", pa.string(), ["Z" * 400] * n), ("empty", pa.string(), [""] * n), ("struct", pa.struct([("a", pa.int32())]), some({"a": 7})),
        ("nulls", pa.list_(pa.int32()), lists(None)), ("vector", pa.list_(pa.float32(), 4), [[1.0, 2.0, 3.0, 4.0]] * n), ("dict", pa.dictionary(pa.int8(), pa.string()), some("same")),
    ]
    return table_of(cols)


def zipped(rng, n=130):
    """Full-zip pages of all kinds, by metadata and by depth."""
    full, packed = marked(structural_encoding="fullzip"), marked(packed="true")
    deep, structs = pa.string(), pa.string()
    for _ in range(5):
        deep, structs = pa.list_(deep), pa.struct([("f", structs)])
    for _ in range(7):
        structs = pa.struct([("f", structs)])

    def nest(depth, leaf):
        return leaf if depth == 0 else [nest(depth - 1, leaf)]

    def wrap(depth, leaf):
        if depth and rng.random() < 0.05:
            return None
        return leaf if depth == 0 else {"f": wrap(depth - 1, leaf)}

    cols = [
        ("bits", pa.bool_(), nulls([rng.random() < 0.5 for _ in range(n)], 0.3, rng), full),
        ("ints", pa.list_(pa.field("item", pa.int32(), metadata=full)), [None if i % 7 == 0 else nulls(list(range(i % 5)), 0.2, rng) for i in range(n)], full),
        ("vectors", pa.list_(pa.list_(pa.int8(), 3), 2), nulls([[[1, None, i % 100], None] for i in range(n)], 0.2, rng), marked()),
        ("deep", deep, [nest(5, "x" * (i % 40)) if i % 3 else None for i in range(n)], full),
        ("structs", structs, [wrap(12, "y" * (300 if i % 40 == 0 else 3)) for i in range(n)]),
        ("zstd", pa.string(), nulls([text(rng, 300, 310) if i % 20 == 0 else "" for i in range(n)], 0.2, rng), marked(compression="zstd")),
        ("fsst", pa.string(), [text(rng, 2, 3) * (100 if i % 4 else 150) for i in range(n)]),
        ("large", pa.list_(pa.large_string()), [[None, "z" * 257] if i % 20 == 0 else ["a"] * (i % 3) for i in range(n)]),
        ("dict_list", pa.list_(pa.dictionary(pa.int8(), pa.string())), None),
    ]
    rows = [None if i % 6 == 0 else [rng.choice(["red", "green", None]) for _ in range(i % 4)] for i in range(n)]
    cols[-1] = ("dict_list", pa.list_(pa.dictionary(pa.int8(), pa.string())), rows)
    if zipped.version != "2.1":
        row = pa.struct([("a", pa.int32()), ("s", pa.string()), ("l", pa.large_binary())])
        cols.append(("packed", row, nulls([{"a": i, "s": text(rng, 0, 9), "l": b"l" * (i % 5)} for i in range(n)], 0.2, rng), packed))
        item = pa.field("item", pa.struct([("a", pa.int32()), ("b", pa.string())]), metadata=packed)
        cols.append(("packed_list", pa.list_(item), [[{"a": k, "b": text(rng, 0, 5)} for k in range(1 + i % 3)] for i in range(n)]))
        cols.append(("packed_numbers", pa.list_(pa.field("item", pa.struct([("a", pa.int32()), ("b", pa.int64())]), metadata=packed)), [[{"a": k, "b": i} for k in range(1 + i % 3)] for i in range(n)]))
    return table_of(cols)


def sequences(rng, n=6000):
    """2.3: generic blocks of offsets, positions, counts and indices."""
    plan = marked(structural_encoding="sparse")
    return table_of([
        ("pool", pa.string(), [("pool %d " % (i % 6)) * 45 if i % 40 == 0 else None for i in range(n)], plan),
        ("pool_list", pa.list_(pa.string()), [[("pool %d " % (i % 5)) * 45] if i % 90 == 0 else [] for i in range(n)]),
        ("vector", pa.list_(pa.float32(), 64), [[float(i)] * 64 if i % 600 == 0 else None for i in range(n)], plan),
        ("same", pa.list_(pa.int32()), [[7, 7] if i % 50 == 0 else [] for i in range(n)]),
        ("runs", pa.list_(pa.int8()), [[2] * (1 + i // 2000) if i % 25 == 0 else [] for i in range(n)]),
        ("counts", pa.list_(pa.int8()), [[1] * rng.choice([1, 20, 60]) if i % 60 == 0 else [] for i in range(n)]),
        ("head", pa.list_(pa.int64()), [[i] * 5 if i < 40 else [] for i in range(n)]),
        ("nested", pa.list_(pa.list_(pa.int8())), [[[1], [], None] if i % 300 == 0 else None for i in range(n)]),
        ("growing", pa.binary(), [b"q" * (i // 1500) for i in range(n)]),
        ("steps", pa.string(), ["a" * (1 if i < 3000 else 2) for i in range(n)]),
        ("repeat", pa.int32(), [v for v in rng.choices(range(1000), k=12) for _ in range(n // 12)]),
    ])


def rows_20(rng, n=40):
    """Structs that 14.0.2 writes as rows and cannot read back."""
    item = pa.struct([("a", pa.int32()), ("b", pa.int32()), ("v", pa.list_(pa.int16(), 2))])
    cols = {
        "list": pa.array([[{"a": i, "b": -i, "v": [i, 1]}, {"a": 2 * i, "b": 7, "v": [i, 2]}] for i in range(n)], pa.list_(item, 2)),
        "marked": pa.array([{"a": i, "b": i * i, "v": [3, i]} for i in range(n)], item),
    }
    fields = [pa.field(k, c.type, metadata={"lance-encoding:packed": "false"} if k == "marked" else None) for k, c in cols.items()]
    return pa.table(list(cols.values()), schema=pa.schema(fields))


def write(name, table, version, readable=True):
    out = os.path.join(HERE, "golden", f"{name}_{version.replace('.', '')}")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    with tempfile.TemporaryDirectory() as tmp:
        ds = lance.write_dataset(table, tmp + "/t.lance", data_storage_version=version)
        expected = ds.to_table().combine_chunks() if readable else table
        shutil.copy(glob.glob(tmp + "/t.lance/data/*.lance")[0], out + "/data.lance")
        shutil.copy(glob.glob(tmp + "/t.lance/_versions/*.manifest")[0], out + "/manifest")
    with pa.OSFile(out + "/expected.arrow", "wb") as f, pa.ipc.new_file(f, expected.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as w:
        w.write_table(expected)


def main():
    for version in ("2.1", "2.2", "2.3"):
        for make in (scalars, codecs, wide, nested, sparse, constants, zipped):
            make.version = version
            write(make.__name__, make(random.Random(7)), version)
        if version == "2.3":
            write("fixed_structs", fixed_structs(random.Random(7)), version)
            write("sequences", sequences(random.Random(7)), version)
    write("rows", rows_20(random.Random(7)), "2.0", readable=False)


if __name__ == "__main__":
    main()
