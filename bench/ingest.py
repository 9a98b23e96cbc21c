"""What is written: streams of batches of about 4 MiB, the same on every run, and cheap to make while the clock runs."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BLOB = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.utf8())])
MARK = {"ARROW:extension:name": "lance.blob.v2", "ARROW:extension:metadata": ""}
BATCH = 4 << 20
WORDS = np.array(["owl", "kite", "wren", "heron", "robin", "stork", "swift", "crane"])


class Source:
    """`batches()` may be called again and again; `bytes` and `rows` say what one stream of them holds."""

    def __init__(self, name, parts, repeats):
        self.name, self.parts, self.repeats = name, parts, repeats
        self.schema = parts[0].schema
        self.rows = sum(p.num_rows for p in parts) * repeats
        self.bytes = sum(p.nbytes for p in parts) * repeats

    def batches(self):
        for _ in range(self.repeats):
            yield from self.parts


def random_values(n, size):
    """n values of random bytes."""
    block = pa.py_buffer(np.random.default_rng(size).bytes(n * size))
    offsets = pa.py_buffer(np.arange(n + 1, dtype=np.int64) * size)
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), n, [None, offsets, block])


def blobs(n, size):
    return pa.StructArray.from_arrays([random_values(n, size), pa.nulls(n, pa.utf8())], fields=list(BLOB))


def values(name, size, total):
    n = max(1, BATCH // size)
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("blob", BLOB, metadata=MARK)])
    part = pa.record_batch([pa.array(np.arange(n)), blobs(n, size)], schema=schema)
    return Source(name, [part], max(1, total // (n * size)))


def scalars(total):
    """Twenty columns of numbers, times, text and flags: 65 536 rows a batch, none of which comes twice."""
    n = 65_536
    rng = np.random.default_rng(3)
    words = pa.array(WORDS)

    def word():
        return words.take(pa.array(rng.integers(0, len(WORDS), n)))

    parts, first = [], 0
    while sum(p.nbytes for p in parts) < total:
        columns = {"id": pa.array(np.arange(first, first + n))}
        for i in range(5):
            columns[f"int_{i}"] = pa.array(rng.integers(0, 10 ** (2 * i + 2), n))
            columns[f"float_{i}"] = pa.array(rng.random(n) * 10**i)
        columns["price"] = pa.array(np.round(rng.gamma(2, 20, n), 2))
        columns["made"] = pa.array(np.cumsum(rng.integers(0, 5000, n)) + 1_700_000_000_000_000, pa.timestamp("us"))
        columns["day"] = pa.array(rng.integers(18_000, 20_000, n).astype(np.int32), pa.date32())
        columns["flag"] = pa.array(rng.random(n) < 0.2)
        columns["score"] = pa.array(rng.random(n).astype(np.float32), mask=rng.random(n) < 0.1)
        columns["category"] = word()
        columns["key"] = pc.binary_join_element_wise("order", pa.array(rng.integers(0, 10**8, n)).cast(pa.utf8()), "-")
        columns["name"] = pc.binary_join_element_wise(word(), word(), word(), " ")
        columns["small"] = pa.array(rng.integers(0, 100, n).astype(np.int16))
        parts.append(pa.record_batch(columns))
        first += n
    return Source("20 scalar columns", parts, 1)


def nested(total):
    """Structs, and lists of structs with text, vectors and blobs of 20 KB in them."""
    n, pages = 256, 768
    rng = np.random.default_rng(4)
    page = pa.struct(
        [
            pa.field("no", pa.int32()),
            pa.field("title", pa.utf8()),
            pa.field("box", pa.list_(pa.float32(), 4)),
            pa.field("scan", BLOB, metadata=MARK),
        ]
    )
    items = pa.StructArray.from_arrays(
        [
            pa.array(np.arange(pages, dtype=np.int32)),
            pa.array([" ".join(WORDS[p]) for p in rng.integers(0, len(WORDS), (pages, 5))]),
            pa.FixedSizeListArray.from_arrays(pa.array(rng.random(4 * pages).astype(np.float32)), 4),
            blobs(pages, 20_000),
        ],
        fields=list(page),
    )
    ends = np.concatenate([[0], np.sort(rng.integers(0, pages, n - 1)), [pages]]).astype(np.int32)
    info = pa.StructArray.from_arrays(
        [pa.array(rng.random(n)), pa.array([list(range(i % 7)) for i in range(n)])], ["weight", "tags"]
    )
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("info", info.type),
            pa.field("pages", pa.list_(pa.field("item", page))),
        ]
    )
    lists = pa.ListArray.from_arrays(pa.array(ends), items, type=schema.field("pages").type)
    part = pa.record_batch([pa.array(np.arange(n)), info, lists], schema=schema)
    return Source("nested, with blobs of 20 KB", [part], max(1, total // part.nbytes))


def sources(scale=1.0):
    """All streams by name, of half a gigabyte to one each."""
    made = [
        values("values of 4 KiB", 4096, int(scale * (512 << 20))),
        values("values of 100 KB", 100_000, int(scale * 800e6)),
        values("values of 4 MB", 4_000_000, int(scale * 1e9)),
        scalars(int(scale * 500e6)),
        nested(int(scale * 600e6)),
    ]
    return {s.name: s for s in made}
