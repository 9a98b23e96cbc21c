"""Writes a table with a column of every type that Lance stores, three fragments."""
import decimal
import sys

import lance
import numpy as np
import pyarrow as pa

path, version = sys.argv[1], sys.argv[2]
N = 5000


def column(values, dtype):
    """values, every seventh null"""
    return pa.array([None if i % 7 == 3 else values(i) for i in range(N)], type=dtype)


D = decimal.Decimal
fields, arrays = [], []


def add(name, dtype, values, nullable=True, metadata=None):
    array = column(values, dtype) if nullable else pa.array([values(i) for i in range(N)], type=dtype)
    fields.append(pa.field(name, dtype, nullable=nullable, metadata=metadata))
    arrays.append(array)


add("id", pa.int64(), lambda i: i, nullable=False, metadata={"unit": "rows"})
add("nothing", pa.null(), lambda i: None)
add("flag", pa.bool_(), lambda i: i % 3 == 0)
for bits in (8, 16, 32, 64):
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    add(f"i{bits}", getattr(pa, f"int{bits}")(), lambda i, low=low, high=high: low if i == 0 else high if i == 1 else i % 100 - 50)
    add(f"u{bits}", getattr(pa, f"uint{bits}")(), lambda i, bits=bits: 2**bits - 1 if i == 0 else i % 200)
add("f16", pa.float16(), lambda i: np.float16(float("inf") if i == 0 else 6e-8 if i == 1 else -0.0 if i == 2 else i / 8))
add("f32", pa.float32(), lambda i: i / 3)
add("f64", pa.float64(), lambda i: i / 7)
add("d128", pa.decimal128(38, 10), lambda i: D("-1234567890123456789012345678.0123456789") if i == 0 else D(i) / 8)
add("d128small", pa.decimal128(5, 2), lambda i: D(i % 900) / 4)
add("d256", pa.decimal256(30, 5), lambda i: D("-1234567890123456789012345.54321") if i == 0 else D(i) / 4)
add("d256wide", pa.decimal256(76, 20), lambda i: D("-" + "9" * 56 + "." + "8" * 20) if i == 0 else D(i) / 16)
add("s", pa.string(), lambda i: "" if i == 0 else "日本語 text number %d" % i)
add("ls", pa.large_string(), lambda i: "x" * (i % 50))
add("b", pa.binary(), lambda i: bytes([i % 256]) * (i % 30))
add("lb", pa.large_binary(), lambda i: b"\x00\xff" * (i % 20))
add("fsb", pa.binary(5), lambda i: b"%05d" % i)
add("date32", pa.date32(), lambda i: i - 1000)
add("date64", pa.date64(), lambda i: (i - 1000) * 86400000)
add("t32s", pa.time32("s"), lambda i: i % 86400)
add("t32ms", pa.time32("ms"), lambda i: i * 17 % 86400000)
add("t64us", pa.time64("us"), lambda i: i * 1234567 % 86400000000)
add("t64ns", pa.time64("ns"), lambda i: i * 1234567891 % 86400000000000)
for unit in ("s", "ms", "us", "ns"):
    add(f"ts_{unit}", pa.timestamp(unit), lambda i: i * 1000003 - 77)
    add(f"tz_{unit}", pa.timestamp(unit, tz="Europe/Paris"), lambda i: i * 1000003 - 77)
    add(f"du_{unit}", pa.duration(unit), lambda i: -5 if i == 0 else 2**61 // 1000000 if i == 1 else i * 1234567)
add("l", pa.list_(pa.int32()), lambda i: [None if k == 1 else k + i for k in range(i % 4)])
add("ll", pa.large_list(pa.string()), lambda i: ["v%d" % k for k in range(i % 3)])
add("named", pa.list_(pa.field("entry", pa.float16(), nullable=False)), lambda i: [np.float16(k) for k in range(i % 3)])
add("fsl", pa.list_(pa.float32(), 3), lambda i: [i, i + 0.5, i + 1])
add("fslh", pa.list_(pa.float16(), 2), lambda i: [np.float16(1), np.float16(2)])
add("st", pa.struct([pa.field("x", pa.int32(), nullable=False, metadata={"k": "v"}), pa.field("h", pa.float16()), pa.field("d", pa.duration("ns"))]),
    lambda i: {"x": i, "h": np.float16(i % 9), "d": i * 1001})
add("lst", pa.list_(pa.struct([pa.field("n", pa.binary(2)), pa.field("t", pa.timestamp("ns", tz="UTC"))])),
    lambda i: [None if k == 1 else {"n": b"ab", "t": i * 999 + k} for k in range(i % 4)])
add("stl", pa.struct([pa.field("l", pa.large_list(pa.time32("ms")))]), lambda i: {"l": [1, None, i]})
inner = pa.struct([pa.field("flag", pa.bool_(), nullable=False), pa.field("deep", pa.struct([pa.field("n", pa.int16()), pa.field("s", pa.string())]))])
add("nested", pa.struct([pa.field("inner", inner), pa.field("n", pa.int64(), nullable=False)]),
    lambda i: {"inner": {"flag": i % 2 == 0, "deep": None if i % 5 == 1 else {"n": i, "s": "s%d" % i}}, "n": i})
add("required", pa.list_(pa.field("item", pa.struct([pa.field("x", pa.int32(), nullable=False)]), nullable=False)), lambda i: [{"x": k} for k in range(i % 3)])
add("large_required", pa.large_list(pa.field("element", pa.int8(), nullable=False)), lambda i: list(range(i % 3)))
add("text", pa.string(), lambda i: "plain", metadata={"a": "b", "c": "d"})
table = pa.table(arrays, schema=pa.schema(fields, metadata={"table": "types"}))
dictionary = pa.array(["red", "green", None, "blue", "red"] * (N // 5)).dictionary_encode()
table = table.append_column(pa.field("dict", dictionary.type), dictionary)
if version >= "2.2":
    kv = pa.map_(pa.string(), pa.int32())
    table = table.append_column(pa.field("m", kv), pa.array([None if i % 7 == 3 else [("k%d" % k, k) for k in range(i % 3)] for i in range(N)], type=kv))
for name, values in {
    "dict_flag": pa.array([True, False]), "dict_half": pa.array([1.5, -0.0], pa.float16()), "dict_n": pa.array([7, 9], pa.uint32()),
    "dict_bytes": pa.array([b"a", b"bb"], pa.large_binary()),
}.items():
    coded = pa.DictionaryArray.from_arrays(pa.array([None if i % 7 == 3 else i % 2 for i in range(N)], pa.int16()), values)
    table = table.append_column(pa.field(name, coded.type), coded)
lance.write_dataset(table, path, data_storage_version=version, max_rows_per_file=1700)
