"""Random blob columns: every kind and length class, in every container."""

import numpy as np
import pyarrow as pa

from .columns import covered, ends, mixed, spread

MARK = {"ARROW:extension:name": "lance.blob.v2"}
KEYS = {
    "lance-encoding:blob-inline-size-threshold": "64",
    "lance-encoding:blob-dedicated-size-threshold": "512",
    "lance-encoding:blob-pack-file-size-threshold": "20000",
}
COMPLETE = pa.struct(
    [
        pa.field("data", pa.large_binary()),
        pa.field("uri", pa.utf8()),
        pa.field("position", pa.uint64()),
        pa.field("size", pa.uint64()),
    ]
)
MINIMAL = pa.struct(list(COMPLETE)[:2])
OBJECT = 64 << 10  # bytes of the external object

DEDICATED = 40  # at most so many values of a column go into files of their own


def blob(name, complete=True, nullable=True, metadata=KEYS):
    return pa.field(name, COMPLETE if complete else MINIMAL, nullable, {**MARK, **metadata})


def blob_fields():
    """Blob v2 columns at the top and in every container."""
    return [
        blob("img"),
        blob("inline_only", complete=False, metadata={}),
        blob("required", nullable=False),
        pa.field("s", pa.struct([pa.field("caption", pa.utf8()), blob("blob")])),
        pa.field("s_required", pa.struct([pa.field("n", pa.int32(), False), blob("blob", nullable=False)]), False),
        pa.field("l", pa.list_(blob("item"))),
        pa.field("ll", pa.large_list(blob("item", complete=False))),
        pa.field("ls", pa.list_(pa.struct([pa.field("caption", pa.utf8()), blob("blob")]))),
        pa.field("sl", pa.struct([pa.field("n", pa.int32()), pa.field("blobs", pa.list_(blob("item")))])),
        pa.field("lli", pa.list_(pa.list_(blob("item")))),
    ]


def legacy_fields():
    """What files before 2.2 can hold: marked binary columns at the top."""
    return [
        pa.field("img", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        pa.field("noted", pa.large_binary(), metadata={"lance-encoding:blob": "true", "unit": "px"}),
    ]


def is_marked(field):
    return (field.metadata or {}).get(b"ARROW:extension:name") == b"lance.blob.v2"


def contents(numbers, rng, largest):
    """Bytes of every length class: empty, inline, packed, dedicated."""
    sizes = np.where(numbers % np.uint64(5) == 0, 0, np.where(numbers % np.uint64(5) < 3, 20, 150)).astype(np.int64)
    sizes += (numbers % np.uint64(37)).astype(np.int64) * (sizes > 0)
    if largest and len(sizes):
        few = np.linspace(0, len(sizes) - 1, min(DEDICATED, len(sizes) // 4 + 1)).astype(np.int64)
        sizes[few] = largest
    offsets = ends(sizes)
    data = pa.py_buffer(rng.bytes(int(offsets[-1])))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(sizes), [None, pa.py_buffer(offsets.astype(np.int64)), data]
    )


def values(field, numbers, rng, uri):
    """Logical values without nulls; a fifth of those in the complete shape are External."""
    data = contents(numbers, rng, 700 if len(field.metadata) > 1 else 0)
    n = len(numbers)
    outside = np.zeros(n, bool) if uri is None or field.type.num_fields == 2 else numbers % np.uint64(5) == 4
    inside = pa.array(~outside)
    whole = outside & (numbers % np.uint64(3) == 0)
    ranged = pa.array(outside & ~whole)
    where = (numbers % np.uint64(OBJECT - 300)).astype(np.uint64)
    nothing = pa.nulls(n, pa.uint64())
    children = [
        pa.compute.if_else(inside, data, pa.nulls(n, pa.large_binary())),
        pa.array(np.where(outside, uri or "", None), pa.utf8()),
        pa.compute.if_else(ranged, pa.array(where), nothing),
        pa.compute.if_else(ranged, pa.array(1 + numbers % np.uint64(200)), nothing),
    ]
    if n and whole.sum() > 20:  # the whole object is large: few values are that
        keep = np.flatnonzero(whole)[:20]
        rest = np.setdiff1d(np.flatnonzero(whole), keep)
        position = np.where(np.isin(np.arange(n), rest), where, 0)
        children[2] = pa.compute.if_else(
            ranged, children[2], pa.array(position, pa.uint64(), mask=~np.isin(np.arange(n), rest))
        )
        children[3] = pa.compute.if_else(
            ranged, children[3], pa.array(np.full(n, 100), pa.uint64(), mask=~np.isin(np.arange(n), rest))
        )
    return pa.StructArray.from_arrays(children[: field.type.num_fields], fields=list(field.type))


def build(field, numbers, rates, rng, uri, visible):
    """A column that holds blobs somewhere; `visible` rows get at least one value that is not null.

    pylance cannot read a list of blobs of which no selected row holds an element, so the first and the last row of each
    batch that is written are such rows.
    """
    kind, (outer, inner) = field.type, rates
    if is_marked(field):
        array = covered(values(field, numbers, rng, uri), inner, rng, field.nullable)
        return array
    if pa.types.is_struct(kind):
        children = [
            build(f, mixed(numbers, i), rates, rng, uri, visible) if holds(f) else text(f, numbers)
            for i, f in enumerate(kind)
        ]
        return hidden(pa.StructArray.from_arrays(children, fields=list(kind)), outer, rng, field, visible)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = (mixed(numbers, 1) % np.uint64(4)).astype(np.int64)
        lengths[visible] = 1 + lengths[visible]
        starts = ends(lengths)[:-1]
        items = build(kind.value_field, spread(numbers, lengths), rates, rng, uri, starts[visible])
        make = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        offsets = pa.array(ends(lengths), pa.int64() if pa.types.is_large_list(kind) else pa.int32())
        return hidden(make.from_arrays(offsets, items, type=kind), outer, rng, field, visible)
    raise TypeError(f"{field} holds no blob")


def hidden(array, rate, rng, field, visible):
    if not field.nullable or rate == 0:
        return array
    mask = rng.random(len(array)) < rate
    mask[visible] = False
    return array.take(pa.array(np.arange(len(array)), mask=mask))


def holds(field):
    return is_marked(field) or any(holds(field.type.field(i)) for i in range(field.type.num_fields))


def text(field, numbers):
    if pa.types.is_integer(field.type):
        return pa.array((numbers % np.uint64(1000)).astype(np.int32))
    return pa.array(np.char.mod("c%d", numbers % np.uint64(1000)))


def in_list(field):
    """Whether a blob of the field lies in a list."""
    kind = field.type
    if is_marked(field) or kind.num_fields == 0:
        return False
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return holds(field)
    return any(in_list(f) for f in kind)


def legacy(field, numbers, rates, rng):
    return covered(contents(numbers, rng, 0), rates[1], rng, field.nullable)
