"""What the answer to a ticket must be, taken from pylance.

pylance is asked for three plain things only: the schema, one whole scan with bytes, one whole scan with descriptors.
Everything else (a column subset, offset and limit, row positions, the logical face) is derived from them by Arrow's
own kernels, since several of pylance's other paths have faults of their own.
"""

import pathlib
import urllib.parse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .compare import one

BLOB = b"ARROW:extension:name"
BLOB_NAME = b"lance.blob.v2"
LEGACY = b"lance-encoding:blob"

DESCRIPTOR = pa.struct(
    [
        pa.field("kind", pa.uint8(), False),
        pa.field("position", pa.uint64(), False),
        pa.field("size", pa.uint64(), False),
        pa.field("blob_id", pa.uint32(), False),
        pa.field("blob_uri", pa.utf8(), False),
    ]
)
DESCRIPTOR_METADATA = {b"lance-encoding:blob": b"true", b"lance-encoding:packed": b"true"}
LOGICAL = pa.struct(
    [
        pa.field("data", pa.large_binary()),
        pa.field("uri", pa.utf8()),
        pa.field("position", pa.uint64()),
        pa.field("size", pa.uint64()),
    ]
)
EXTERNAL = 3
ZERO = pa.scalar(0, pa.uint64())  # a plain 0 would make Arrow compare as int64


def is_blob(field):
    """Whether a field of a table's own schema is a blob column: Blob v2, or the legacy mark (LEG-11)."""
    known = field.metadata or {}
    return known.get(BLOB) == BLOB_NAME or LEGACY in known


def has_blob(field):
    if is_blob(field):
        return True
    kind = field.type
    return any(has_blob(kind.field(i)) for i in range(kind.num_fields))


def rebuilt(kind, item):
    """A list-like or struct type around other children."""
    if pa.types.is_struct(kind):
        return pa.struct(item)
    if pa.types.is_list(kind):
        return pa.list_(item[0])
    if pa.types.is_large_list(kind):
        return pa.large_list(item[0])
    raise TypeError(f"a blob column cannot lie inside {kind}")


def face_field(field, face):
    """The field that a face shows for a field of the table's schema (MAT-1, MAT-2, DESC-1, DESC-3)."""
    if is_blob(field):
        if face == "bytes":
            kept = {k: v for k, v in (field.metadata or {}).items() if k not in (BLOB, b"ARROW:extension:metadata")}
            return pa.field(field.name, pa.large_binary(), field.nullable, kept or None)
        if face == "descriptor":
            return pa.field(field.name, DESCRIPTOR, field.nullable, DESCRIPTOR_METADATA)
        kept = {k: v for k, v in (field.metadata or {}).items() if k not in (b"ARROW:extension:metadata", LEGACY)}
        return pa.field(field.name, logical_type(field), field.nullable, {**kept, BLOB: BLOB_NAME})
    if not has_blob(field):
        return field
    kind = field.type
    children = [face_field(kind.field(i), face) for i in range(kind.num_fields)]
    return pa.field(field.name, rebuilt(kind, children), field.nullable, field.metadata)


def logical_type(field):
    """Always the four children, each with the metadata that the table's own has (SCH-4)."""
    known = {f.name: f.metadata for f in field.type} if pa.types.is_struct(field.type) else {}
    return pa.struct([f.with_metadata(known.get(f.name)) for f in LOGICAL])


def mask_of(array):
    return pc.is_null(array)


def legacy_descriptor(pairs):
    """Two-child descriptors in the five children of Blob v2; what LEG-9 calls null is null."""
    position, size = pairs.field("position"), pairs.field("size")
    null = pc.or_(mask_of(pairs), pc.and_(pc.equal(size, ZERO), pc.not_equal(position, ZERO)))
    null = pc.fill_null(null, True)
    n = len(pairs)
    zero = pa.array(np.zeros(n, np.uint64))
    children = [
        pa.array(np.zeros(n, np.uint8)),
        pc.if_else(null, zero, pc.fill_null(position, 0)),
        pc.if_else(null, zero, pc.fill_null(size, 0)),
        pa.array(np.zeros(n, np.uint32)),
        pa.array([""] * n, pa.utf8()),
    ]
    return pa.StructArray.from_arrays(children, fields=list(DESCRIPTOR), mask=one(null))


def descriptor_array(array, field):
    """A column of pylance's descriptor scan as the descriptor face shows it."""
    if is_blob(field):
        if array.type.num_fields == 2:
            return legacy_descriptor(array)
        # Children may be declared nullable in a file (DESC-4); the face declares them as DESC-1 does.
        return pa.StructArray.from_arrays(array.flatten(), fields=list(DESCRIPTOR), mask=mask_of(array))
    return around(array, field, descriptor_array)


def around(array, field, change):
    """A nested array with its blob leaves changed, structure and validity untouched."""
    if not has_blob(field):
        return array
    kind = field.type
    if pa.types.is_struct(kind):
        children = [change(child, kind.field(i)) for i, child in enumerate(array.flatten())]
        fields = [pa.field(kind.field(i).name, c.type, kind.field(i).nullable) for i, c in enumerate(children)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask_of(array))
    item = change(items(array), kind.value_field)
    offsets = relative_offsets(array)
    make = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    wrapped = rebuilt(kind, [pa.field(kind.value_field.name, item.type, kind.value_field.nullable)])
    return make.from_arrays(offsets, item, type=wrapped, mask=mask_of(array) if array.null_count else None)


def items(array):
    """Items of the lists that are not null, in order."""
    return array.flatten()


def relative_offsets(array):
    """Offsets of the lists over `items`, from zero, where a null list has none."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(valid, np.diff(array.offsets.to_numpy()), 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.array(offsets, pa.int64() if pa.types.is_large_list(array.type) else pa.int32())


class Bases:
    """Absolute references of External values: the descriptor's URI, or the base's path and the rest of it."""

    def __init__(self, paths):
        self.paths = paths  # base id → path or URI

    def absolute(self, identifier, uri):
        if identifier == 0:
            return uri
        path = self.paths[identifier]
        if "://" not in path:
            path = pathlib.Path(path).as_uri()
        # The remainder is literal (EXT-5); in a URI it needs its escapes.
        return path.rstrip("/") + "/" + urllib.parse.quote(uri.strip("/"), safe="/!$&'()*+,;=:@~-._")


def logical_leaf(values, descriptors, bases):
    """Bytes and descriptors of one blob column as values that can be written straight back."""
    rows = []
    for value, descriptor in zip(values, descriptors.to_pylist()):
        if descriptor is None:
            rows.append(None)
        elif descriptor["kind"] != EXTERNAL:
            rows.append({"data": value.as_py(), "uri": None, "position": None, "size": None})
        else:
            whole = descriptor["size"] == 0  # the sentinel: no range (IN-4, NUL-9)
            rows.append(
                {
                    "data": None,
                    "uri": bases.absolute(descriptor["blob_id"], descriptor["blob_uri"]),
                    "position": None if whole else descriptor["position"],
                    "size": None if whole else descriptor["size"],
                }
            )
    return pa.array(rows, LOGICAL)


def logical_array(values, descriptors, field, bases):
    if is_blob(field):
        return logical_leaf(values, descriptors, bases)
    if not has_blob(field):
        return values
    kind = field.type
    if pa.types.is_struct(kind):
        children = [
            logical_array(a, b, kind.field(i), bases)
            for i, (a, b) in enumerate(zip(values.flatten(), descriptors.flatten()))
        ]
        fields = [pa.field(kind.field(i).name, c.type, kind.field(i).nullable) for i, c in enumerate(children)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask_of(values))
    item = logical_array(items(values), items(descriptors), kind.value_field, bases)
    make = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    wrapped = rebuilt(kind, [pa.field(kind.value_field.name, item.type, kind.value_field.nullable)])
    return make.from_arrays(
        relative_offsets(values), item, type=wrapped, mask=mask_of(values) if values.null_count else None
    )


ROW_COLUMNS = ("_rowid", "_rowaddr")


class Oracle:
    """Every answer that one snapshot has to give. Scans are made once and kept."""

    def __init__(self, dataset, bases=None):
        self.dataset = dataset
        self.schema = dataset.schema
        self.bases = Bases(bases or {})
        self.kept = {}

    def whole(self, face):
        """The whole table in one face, plus `_rowid` and `_rowaddr` at the end."""
        if face not in self.kept:
            self.kept[face] = self.make(face)
        return self.kept[face]

    def scan(self, handling):
        key = ("scan", handling)
        if key not in self.kept:
            scanner = self.dataset.scanner(blob_handling=handling, with_row_id=True, with_row_address=True)
            self.kept[key] = scanner.to_table()
        return self.kept[key]

    def make(self, face):
        fields = [face_field(f, face) for f in self.schema]
        values = self.scan("all_binary") if face != "descriptor" else None
        described = self.scan("all_descriptions") if face != "bytes" and self.has_blobs() else None
        source = values if values is not None else self.scan("all_descriptions")
        columns = []
        for original in self.schema:
            if not has_blob(original) or face == "bytes":
                column = one(source[original.name])
            elif face == "descriptor":
                column = descriptor_array(one(described[original.name]), original)
            else:
                column = logical_array(
                    one(values[original.name]),
                    descriptor_array(one(described[original.name]), original),
                    original,
                    self.bases,
                )
            columns.append(column)
        for name in ROW_COLUMNS:
            columns.append(one(source[name]))
            fields.append(source.schema.field(name))
        return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=self.schema.metadata))

    def has_blobs(self):
        return any(has_blob(f) for f in self.schema)

    def answer(self, columns=None, blobs="bytes", limit=None, offset=None, rows=None, **_):
        """The table that a ticket of these fields must give."""
        table = self.whole(blobs)
        if columns is None:
            table = table.select([f.name for f in self.schema])
        else:
            table = select(table, columns)
        if rows is not None:
            return table.take(pa.array(rows, pa.int64()))
        return table.slice(offset or 0, limit)


def select(table, columns):
    """Named columns; a dotted name goes through structs and is null under a null parent."""
    picked, fields = [], []
    for path in columns:
        if path in table.schema.names:
            picked.append(one(table[path]))
            fields.append(table.schema.field(path))
            continue
        head, *rest = path.split(".")
        column, field = one(table[head]), table.schema.field(head)
        nullable = field.nullable
        for name in rest:
            index = field.type.get_field_index(name)
            column, field = column.flatten()[index], field.type.field(index)
            nullable = nullable or field.nullable
        picked.append(column)
        fields.append(pa.field(path, field.type, nullable, field.metadata))
    return pa.Table.from_arrays(picked, schema=pa.schema(fields, metadata=table.schema.metadata))
