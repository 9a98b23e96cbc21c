"""Random columns: every type, in patterns that reach every encoding, with nulls at every level.

A value is made from a seed number. A pattern chooses the seeds (random, runs of few, rising, one), so one generator a
type serves all patterns. Nulls are laid over by rate, containers and items each by their own.
"""

import numpy as np
import pyarrow as pa

PATTERNS = ("random", "repetitive", "sequential", "constant")

# Null rates of containers and of leaves. "inner" has every container and no value in it.
NULLS = {"none": (0.0, 0.0), "some": (0.3, 0.3), "most": (0.97, 0.97), "all": (1.0, 1.0), "inner": (0.0, 1.0)}


def seeds(pattern, n, rng):
    """The seed numbers of n values."""
    if pattern == "random":
        return rng.integers(0, 1 << 64, n, np.uint64)
    if pattern == "repetitive":
        runs = rng.integers(0, 7, n // 5 + 1, np.uint64)
        return np.repeat(runs, rng.integers(1, 12, len(runs)))[:n] if n > 20 else runs[:1].repeat(n)
    if pattern == "sequential":
        return np.arange(n, dtype=np.uint64)
    return np.full(n, 42, np.uint64)


def pattern_seeds(pattern, n, rng):
    got = seeds(pattern, n, rng)
    return np.resize(got, n)  # runs may fall short of n


def mixed(numbers, salt):
    """Other seeds from seeds; equal ones stay equal, rising ones stay small and rising."""
    return numbers + np.uint64(salt) if (numbers < 1 << 40).all() else numbers * np.uint64(2 * salt + 1)


# ---------------------------------------------------------------- leaves


def text_of(numbers):
    """Short texts of many lengths, empty ones and non-ASCII ones among them."""
    words = np.char.mod("%x", numbers & np.uint64(0xFFFFFFFFFF)).astype(object)
    words[numbers % np.uint64(17) == 3] = ""
    words[numbers % np.uint64(13) == 5] = "\u00e9\u4e2d\U0001f426"
    return words


def long_text_of(numbers):
    """Texts past 256 bytes, which go another way than short ones; two in a hundred are past 32 KiB."""
    words = text_of(numbers)
    out = np.empty(len(words), object)
    for i, word in enumerate(words):
        out[i] = f"{word}/" * (6000 if i % 50 == 7 and len(words) <= 1000 else 40)
    return out


def floats(numbers, bits, kind):
    """Halves of small numbers, any bits for large ones, and NaNs with payload, zeros of both signs, infinities."""
    small = (np.minimum(numbers, 1 << 11).astype(np.float64) / 2).astype(kind)
    raw = np.where(
        numbers < 1 << 11, small.view(f"u{bits // 8}"), (numbers >> np.uint64(64 - bits)).astype(f"u{bits // 8}")
    )
    infinity = int(np.array([np.inf], kind).view(f"u{bits // 8}")[0])
    sign = 1 << (bits - 1)
    odd = np.array([infinity, infinity | 1, infinity | 5 | sign, sign, 0, infinity | sign, 1], np.uint64)
    special = numbers % np.uint64(29) < 7
    return np.where(special, odd[numbers % np.uint64(7)].astype(raw.dtype), raw).astype(raw.dtype).view(kind)


def fixed_bytes(numbers, width):
    unit = numbers.astype("<u8").view(np.uint8).reshape(len(numbers), 8)
    return np.tile(unit, (1, width // 8 + 1))[:, :width].copy()


def decimals(numbers, kind):
    width = 16 if pa.types.is_decimal128(kind) else 32
    raw = np.zeros((len(numbers), width // 8), "<i8")
    raw[:, 0] = (numbers >> np.uint64(4)).astype("<i8")
    raw[numbers % np.uint64(3) == 1] *= -1
    raw[raw[:, 0] < 0, 1:] = -1
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(raw.tobytes())])


DICTIONARY = 23  # distinct values of a dictionary column


def leaf(field, numbers):
    """An array without nulls from seeds."""
    kind = field.type
    n = len(numbers)
    if pa.types.is_null(kind):
        return pa.nulls(n)
    if pa.types.is_boolean(kind):
        return pa.array((numbers & np.uint64(1)).astype(bool))
    if pa.types.is_floating(kind):
        return pa.array(floats(numbers, kind.bit_width, kind.to_pandas_dtype()), kind)
    if pa.types.is_decimal(kind):
        return decimals(numbers, kind)
    if pa.types.is_date64(kind):  # whole days, as the type demands
        return pa.array((numbers % np.uint64(40_000)).astype(np.int64) * 86_400_000, pa.int64()).view(kind)
    if pa.types.is_time(kind):
        unit = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        storage = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array((numbers % np.uint64(86_400 * unit)).astype(np.int64), storage).view(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array((numbers >> np.uint64(8)).astype(np.int64), pa.int64()).view(kind)
    if pa.types.is_date32(kind):
        return pa.array((numbers % np.uint64(100_000)).astype(np.int32), pa.int32()).view(kind)
    if pa.types.is_integer(kind):
        return pa.array(numbers.astype(kind.to_pandas_dtype()), kind)
    if pa.types.is_fixed_size_binary(kind):
        raw = fixed_bytes(numbers, kind.byte_width)
        return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(raw.tobytes())])
    if pa.types.is_dictionary(kind):
        indices = (numbers % np.uint64(DICTIONARY)).astype(kind.index_type.to_pandas_dtype())
        values = leaf(pa.field("", kind.value_type), np.arange(3, 3 + DICTIONARY, dtype=np.uint64))
        return pa.DictionaryArray.from_arrays(pa.array(indices), values)
    wide = (field.metadata or {}).get(b"referee") == b"long"
    words = long_text_of(numbers) if wide else text_of(numbers)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([w.encode()[::-1] for w in words], kind)
    return pa.array(words, kind)


# ---------------------------------------------------------------- nesting


def covered(array, rate, rng, nullable):
    """The array with a share of its values made null."""
    if not nullable or rate == 0 or len(array) == 0 or pa.types.is_null(array.type):
        return array
    mask = rng.random(len(array)) < rate
    return array.take(pa.array(np.arange(len(array)), mask=mask))


def build(field, numbers, rates, rng):
    """A column of a field's type: values from seeds, nulls at both rates."""
    kind, (outer, inner) = field.type, rates
    if pa.types.is_struct(kind):
        if (field.metadata or {}).get(b"referee") == b"no nulls":
            outer = 0
        children = [build(f, mixed(numbers, i), rates, rng) for i, f in enumerate(kind)]
        return covered(pa.StructArray.from_arrays(children, fields=list(kind)), outer, rng, field.nullable)
    if pa.types.is_fixed_size_list(kind):
        item = kind.value_field
        items = build(item, spread(numbers, np.full(len(numbers), kind.list_size)), rates, rng)
        array = pa.FixedSizeListArray.from_arrays(items, type=kind)
        return covered(array, outer, rng, field.nullable)
    if pa.types.is_map(kind):
        lengths = (numbers % np.uint64(4)).astype(np.int64)
        keys = leaf(kind.key_field, np.concatenate([np.arange(n, dtype=np.uint64) for n in lengths] or [numbers[:0]]))
        items = build(kind.item_field, spread(numbers, lengths), rates, rng)
        array = pa.MapArray.from_arrays(pa.array(ends(lengths), pa.int32()), keys, items, type=kind)
        return covered(array, outer, rng, field.nullable)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = (mixed(numbers, 1) % np.uint64(4)).astype(np.int64)
        if len(lengths) > 500:
            lengths[len(lengths) // 3] = 1500  # one long list among short ones
        items = build(kind.value_field, spread(numbers, lengths), rates, rng)
        make = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        offsets = pa.array(ends(lengths), pa.int64() if pa.types.is_large_list(kind) else pa.int32())
        return covered(make.from_arrays(offsets, items, type=kind), outer, rng, field.nullable)
    return covered(leaf(field, numbers), inner, rng, field.nullable)


def ends(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


def spread(numbers, lengths):
    """Seeds of the items of lists."""
    each = np.repeat(numbers, lengths)
    return each + np.arange(len(each), dtype=np.uint64) % np.uint64(11)


# ---------------------------------------------------------------- what columns there are


def plain_fields():
    """One column of every type that stands alone."""
    kinds = {
        **{f"i{b}": getattr(pa, f"int{b}")() for b in (8, 16, 32, 64)},
        **{f"u{b}": getattr(pa, f"uint{b}")() for b in (8, 16, 32, 64)},
        **{f"f{b}": getattr(pa, f"float{b}")() for b in (16, 32, 64)},
        "bool": pa.bool_(),
        "null": pa.null(),
        "text": pa.utf8(),
        "large_text": pa.large_utf8(),
        "bytes": pa.binary(),
        "large_bytes": pa.large_binary(),
        "date32": pa.date32(),
        "date64": pa.date64(),
        "time_s": pa.time32("s"),
        "time_ms": pa.time32("ms"),
        "time_us": pa.time64("us"),
        "time_ns": pa.time64("ns"),
        "stamp_s": pa.timestamp("s"),
        "stamp_ms": pa.timestamp("ms", "UTC"),
        "stamp_us": pa.timestamp("us", "Europe/Berlin"),
        "stamp_ns": pa.timestamp("ns"),
        "stamp_s_zone": pa.timestamp("s", "+05:30"),
        "stamp_ns_zone": pa.timestamp("ns", "Asia/Kolkata"),
        **{f"duration_{u}": pa.duration(u) for u in ("s", "ms", "us", "ns")},
        "decimal128": pa.decimal128(38, 7),
        "decimal256": pa.decimal256(76, 20),
        "decimal256_small": pa.decimal256(30, 5),
        "fixed5": pa.binary(5),
        "fixed16": pa.binary(16),
        "fixed300": pa.binary(300),
        "vector4": pa.list_(pa.float32(), 4),
        "vector256": pa.list_(pa.field("item", pa.float32(), False), 256),
        "vector_i8": pa.list_(pa.int8(), 3),
        "vector_f16": pa.list_(pa.float16(), 8),
        "matrix": pa.list_(pa.list_(pa.int16(), 2), 3),
        "dictionary": pa.dictionary(pa.int16(), pa.utf8()),
        "dictionary_u8": pa.dictionary(pa.uint8(), pa.large_utf8()),
        "dictionary_i32": pa.dictionary(pa.int32(), pa.binary()),
        "dictionary_bool": pa.dictionary(pa.int16(), pa.bool_()),
        "dictionary_i64": pa.dictionary(pa.int32(), pa.int64()),
        "dictionary_f64": pa.dictionary(pa.int16(), pa.float64()),
        "dictionary_bytes": pa.dictionary(pa.int64(), pa.large_binary()),
    }
    fields = [pa.field(name, kind) for name, kind in kinds.items()]
    fields += [
        pa.field("long_text", pa.utf8(), metadata={"referee": "long"}),
        pa.field("long_bytes", pa.large_binary(), metadata={"referee": "long"}),
        pa.field("required", pa.int32(), nullable=False),
        pa.field("required_text", pa.utf8(), nullable=False, metadata={"unit": "word", "note": "\u00e9"}),
    ]
    return fields


def nested_fields():
    """Lists, structs and maps in each other, to four levels."""
    point = pa.struct([pa.field("x", pa.int32()), pa.field("label", pa.utf8())])
    required = pa.struct([pa.field("x", pa.int64(), False), pa.field("y", pa.float64())])
    kinds = {
        "struct": point,
        "struct_required": required,
        "struct_struct": pa.struct([pa.field("inner", point), pa.field("n", pa.uint8())]),
        "list": pa.list_(pa.int32()),
        "list_required": pa.list_(pa.field("item", pa.int64(), False)),
        "list_text": pa.list_(pa.utf8()),
        "list_bool": pa.list_(pa.bool_()),
        "large_list": pa.large_list(pa.int64()),
        "large_list_text": pa.large_list(pa.large_utf8()),
        "list_list": pa.list_(pa.list_(pa.int16())),
        "list_large_list": pa.list_(pa.large_list(pa.utf8())),
        "list_list_list": pa.list_(pa.list_(pa.list_(pa.int8()))),
        "list_struct": pa.list_(point),
        "large_list_struct": pa.large_list(required),
        "struct_list": pa.struct([pa.field("n", pa.int32()), pa.field("items", pa.list_(pa.utf8()))]),
        "struct_list_struct": pa.struct([pa.field("parts", pa.list_(point)), pa.field("n", pa.float32())]),
        "list_struct_list": pa.list_(pa.struct([pa.field("tags", pa.list_(pa.utf8())), pa.field("n", pa.int32())])),
        "list_vector": pa.list_(pa.list_(pa.float32(), 4)),
        "struct_vector": pa.struct([pa.field("v", pa.list_(pa.float32(), 4)), pa.field("n", pa.int32())]),
        "list_dictionary": pa.list_(pa.dictionary(pa.int8(), pa.utf8())),
        "map": pa.map_(pa.utf8(), pa.int32()),
        "map_list": pa.map_(pa.utf8(), pa.list_(pa.int32())),
        "list_decimal": pa.list_(pa.decimal128(20, 3)),
        "list_decimal256": pa.list_(pa.decimal256(60, 3)),
        "list_half": pa.list_(pa.float16()),
        "list_fixed": pa.list_(pa.binary(7)),
        "list_duration": pa.list_(pa.duration("ns")),
        "struct_times": pa.struct(
            [
                pa.field("zone", pa.timestamp("ns", "UTC")),
                pa.field("day", pa.date64()),
                pa.field("time", pa.time32("ms")),
                pa.field("long", pa.duration("s")),
            ]
        ),
    }
    return [pa.field(name, kind) for name, kind in kinds.items()]


def encoded_fields():
    """Columns whose metadata asks the writer for one certain encoding."""
    asked = []
    for compression in ("lz4", "zstd", "none", "fsst"):
        for name, kind in (
            ("text", pa.utf8()),
            ("i64", pa.int64()),
            ("f32", pa.float32()),
            ("list", pa.list_(pa.int32())),
        ):
            if compression == "fsst" and name != "text":
                continue
            asked.append(pa.field(f"{name}_{compression}", kind, metadata={"lance-encoding:compression": compression}))
    for layout in ("fullzip", "miniblock"):
        for name, kind in (
            ("text", pa.utf8()),
            ("i32", pa.int32()),
            ("list", pa.list_(pa.utf8())),
            ("bool", pa.bool_()),
        ):
            asked.append(pa.field(f"{name}_{layout}", kind, metadata={"lance-encoding:structural-encoding": layout}))
    asked += [
        pa.field("f64_bss", pa.float64(), metadata={"lance-encoding:bss": "on", "lance-encoding:compression": "lz4"}),
        pa.field("i32_rle", pa.int32(), metadata={"lance-encoding:rle-threshold": "1.0"}),
        pa.field(
            "packed",
            pa.struct([pa.field("a", pa.int32(), False), pa.field("b", pa.uint8(), False)]),
            False,
            metadata={"lance-encoding:packed": "true"},
        ),
    ]
    return asked
