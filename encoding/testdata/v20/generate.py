"""Writes the golden files of format 2.0 with pylance 14.0.2.

    python generate.py [DIRECTORY [ROWS [PAGES]]]

Each case is NAME.lance, one data file, and NAME.arrow, an Arrow IPC stream of
what pylance reads back from it. PAGES is the number of batches that are
written and flushed one by one, so that most columns have as many pages. The
data is seeded: a second run gives the same values.
"""
import os
import random
import string
import sys
from decimal import Decimal

import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter

OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
ROWS = int(sys.argv[2]) if len(sys.argv) > 2 else 37
PAGES = int(sys.argv[3]) if len(sys.argv) > 3 else 3


def values(typ, n, rng, nulls):
    """n random values of a type, a share of them null."""
    if pa.types.is_null(typ):
        return pa.nulls(n)
    if pa.types.is_dictionary(typ):
        # One pool for all pages: keys of eight bits must reach all values of a read.
        pool = values(typ.value_type, 100, random.Random(str(typ)), 0)
        picks = pa.array([None if rng.random() < nulls else rng.randrange(100) for _ in range(n)], pa.int32())
        return pool.take(picks).dictionary_encode().cast(typ)
    if pa.types.is_struct(typ):
        kids = [values(f.type, n, rng, nulls) for f in typ]
        return pa.StructArray.from_arrays(kids, fields=list(typ)) if kids else pa.array([{}] * n, typ)
    if pa.types.is_fixed_size_list(typ):
        kids = values(typ.value_type, n * typ.list_size, rng, nulls)
        # Lists of structs are null now and then even where their items must not be.
        share = 0.3 if pa.types.is_struct(typ.value_type) else nulls
        mask = pa.array([rng.random() < share for _ in range(n)], pa.bool_())
        return pa.FixedSizeListArray.from_arrays(kids, type=typ, mask=mask)
    if pa.types.is_list(typ) or pa.types.is_large_list(typ):
        lens = [rng.choice([0, 0, 1, 2, 3, 5]) for _ in range(n)]
        offsets = [0]
        for x in lens:
            offsets.append(offsets[-1] + x)
        kids = values(typ.value_type, offsets[-1], rng, nulls)
        mask = pa.array([rng.random() < nulls for _ in range(n)], pa.bool_())
        cls, off = (pa.ListArray, pa.int32()) if pa.types.is_list(typ) else (pa.LargeListArray, pa.int64())
        # A masked list keeps its items: null lists that own some.
        return cls.from_arrays(pa.array(offsets, off), kids, type=typ, mask=mask)

    def one():
        if pa.types.is_boolean(typ):
            return rng.random() < 0.5
        if pa.types.is_unsigned_integer(typ):
            return rng.getrandbits(typ.bit_width)
        if pa.types.is_signed_integer(typ):
            return rng.getrandbits(typ.bit_width) - (1 << typ.bit_width - 1)
        if pa.types.is_floating(typ):
            return rng.choice([0.5, -2.25, 1e3, float("inf")]) * (rng.randrange(1000) / 8 if typ.bit_width > 16 else 1)
        if pa.types.is_decimal(typ):
            return Decimal(rng.randrange(-10**9, 10**9)).scaleb(-typ.scale)
        if pa.types.is_fixed_size_binary(typ):
            return rng.randbytes(typ.byte_width)
        if pa.types.is_string(typ) or pa.types.is_large_string(typ):
            return "".join(rng.choice(string.ascii_letters + "äß漢🙂") for _ in range(rng.choice([0, 1, 3, 20])))
        return rng.randbytes(rng.choice([0, 1, 5, 40]))

    if pa.types.is_temporal(typ):
        wide = pa.int32() if typ.bit_width == 32 else pa.int64()
        return pa.array([None if rng.random() < nulls else rng.randrange(86000) for _ in range(n)], wide).cast(typ)
    return pa.array([None if rng.random() < nulls else one() for _ in range(n)], typ)


def repeated(n, rng, nulls):
    words = ["red", "green", "", "blue", "ultramarine"]
    return pa.array([None if rng.random() < nulls else rng.choice(words) for _ in range(n)], pa.string())


PRIMITIVE = [
    pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("us"),
    pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.duration("ms"), pa.decimal128(20, 3), pa.decimal256(50, 4),
    pa.binary(3), pa.binary(16), pa.null(),
]
BYTES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
F = pa.field


def fields(*types):
    return [F("f%d" % i, t) for i, t in enumerate(types)]


ab = pa.struct([F("a", pa.int32()), F("b", pa.string())])
packed = {"packed": "true"}
CASES = {
    "primitives": fields(*PRIMITIVE),
    "bytes": fields(*BYTES),
    "fixed_lists": fields(pa.list_(pa.float32(), 4), pa.list_(pa.bool_(), 3), pa.list_(pa.list_(pa.int16(), 2), 3), pa.list_(pa.float32(), 40)),
    "dictionaries": fields(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint16(), pa.int64()), pa.dictionary(pa.int32(), pa.large_string())),
    "lists": fields(
        pa.list_(pa.int32()), pa.list_(pa.string()), pa.large_list(pa.int64()), pa.list_(pa.bool_()), pa.list_(pa.list_(pa.int16())),
        pa.list_(pa.large_list(pa.list_(pa.string()))), pa.list_(pa.list_(pa.float32(), 3)), pa.list_(pa.dictionary(pa.int8(), pa.string())),
    ),
    "structs": fields(
        ab, pa.struct([F("x", ab), F("y", pa.list_(pa.int8()))]), pa.list_(ab),
        pa.list_(pa.struct([F("t", pa.large_list(pa.struct([F("u", pa.int64()), F("v", pa.list_(pa.binary()))]))), F("w", pa.bool_())])),
    ),
    "packed": [
        F("p", pa.struct([F("a", pa.int32()), F("b", pa.float64()), F("c", pa.list_(pa.uint8(), 3)), F("d", pa.binary(16))]), metadata=packed),
        F("l", pa.list_(F("item", pa.struct([F("a", pa.int16()), F("b", pa.int64())]), metadata=packed))),
    ],
    "repeated": [F("s", pa.string()), F("l", pa.list_(pa.string()))],
    "compressed": [F(c, t, metadata={"lance-encoding:compression": c}) for c, t in
                   [("zstd", pa.string()), ("lz4", pa.string()), ("fsst", pa.string()), ("none", pa.binary())]],
    "blobs": [F("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
              F("s", pa.struct([F("x", pa.large_binary(), metadata={"lance-encoding:blob": "true"}), F("n", pa.int32())])),
              F("l", pa.list_(F("item", pa.large_binary(), metadata={"lance-encoding:blob": "true"})))],
    "empty_structs": [F("e", pa.struct([])), F("l", pa.list_(pa.struct([])))],
    # The writer packs by the mere presence of this mark.
    "packed_false": [F("p", pa.struct([F("a", pa.int32()), F("b", pa.int64())]), metadata={"lance-encoding:packed": "false"}), F("z", pa.int8())],
    "fixed_lists_of_structs": fields(pa.list_(pa.struct([F("a", pa.int32()), F("b", pa.list_(pa.int16(), 2))]), 3)),
}
# Packed structs must not hold nulls.
NO_NULLS = {"packed", "packed_false", "fixed_lists_of_structs"}
# The writer cannot read these itself: the expected rows are the written ones.
UNREADABLE = {"packed_false", "fixed_lists_of_structs"}


def batches(name, rng, rows, pages):
    schema = pa.schema(CASES[name])
    for page in range(pages):
        n = rows if name != "repeated" else max(rows, 150)
        nulls = 0 if name in NO_NULLS else [0.3, 0, 1][page % 3] if rows > 1 else 0
        if name in ("compressed", "blobs") and nulls == 1:
            nulls = 0.9
        columns = []
        for f in schema:
            if name == "repeated":
                flat = repeated(n, rng, nulls)
                columns.append(flat if f.name == "s" else pa.ListArray.from_arrays(pa.array(range(n + 1), pa.int32()), flat, type=f.type))
            elif name == "blobs" and f.name == "l":
                # Lists without a single blob in a batch cannot be written.
                kids = pa.concat_arrays([pa.array([b"blob"], pa.large_binary()), values(pa.large_binary(), 2 * n - 1, rng, nulls)])
                columns.append(pa.ListArray.from_arrays(pa.array(range(0, 2 * n + 1, 2), pa.int32()), kids, type=f.type))
            elif name == "compressed":
                # Neither can FSST pages of nulls only.
                columns.append(pa.concat_arrays([pa.array(["text"], f.type), values(f.type, n - 1, rng, nulls)]))
            else:
                columns.append(values(f.type, n, rng, nulls))
        yield pa.record_batch(columns, schema=schema)


def plain(typ):
    """A type with dictionaries replaced by their values."""
    if pa.types.is_dictionary(typ):
        return typ.value_type
    if pa.types.is_list(typ) and pa.types.is_dictionary(typ.value_type):
        return pa.list_(typ.value_field.with_type(plain(typ.value_type)))
    return typ


def main():
    os.makedirs(OUT, exist_ok=True)
    for name in CASES:
        rng = random.Random(name)
        path = os.path.join(OUT, name + ".lance")
        with LanceFileWriter(path, pa.schema(CASES[name]), version="2.0", data_cache_bytes=1) as w:
            written = list(batches(name, rng, ROWS, PAGES))
            for batch in written:
                w.write_batch(batch)
        table = pa.Table.from_batches(written) if name in UNREADABLE else LanceFileReader(path).read_all().to_table()
        # Chunks with different dictionaries do not fit one stream.
        table = table.cast(pa.schema([f.with_type(plain(f.type)) for f in table.schema]))
        with pa.ipc.new_stream(os.path.join(OUT, name + ".arrow"), table.schema) as s:
            s.write_table(table.combine_chunks())
        print(name, table.num_rows, os.path.getsize(path))


if __name__ == "__main__":
    main()
