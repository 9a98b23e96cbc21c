"""A Flight server that answers right, or wrong in one certain way: the proof that the referee sees it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

from .compare import one


class Faulty(fl.FlightServerBase):
    """Answers JSON tickets from oracles, after `fault(table, ticket)` has had its way with the answer."""

    def __init__(self, oracles, fault=None):
        super().__init__("grpc://127.0.0.1:0")
        self.oracles, self.fault = oracles, fault

    def do_get(self, context, ticket):
        want = json.loads(ticket.ticket)
        table = self.oracles[want["table"]].answer(**{k: v for k, v in want.items() if k != "table"})
        if self.fault is not None:
            table = self.fault(table, want)
        rows = max(1, int((1 << 20) * max(1, table.num_rows) / max(1, table.nbytes)))
        return fl.RecordBatchStream(table.combine_chunks().to_reader(max_chunksize=rows))


# ---------------------------------------------------------------- faults


def columns_of(table, kind):
    return [i for i, f in enumerate(table.schema) if kind(f.type)]


def replaced(table, index, array):
    """The table with other values in one column, schema untouched."""
    arrays = [one(c) for c in table.columns]
    arrays[index] = array
    return pa.Table.from_arrays(arrays, schema=table.schema)


def on(kind, change):
    """A fault in the first column of a kind that `change` really alters."""

    def fault(table, want):
        for index in columns_of(table, kind):
            array = one(table.column(index))
            changed = change(array)
            if changed is not None:
                return replaced(table, index, changed)
        return table

    return fault


def first(flags):
    """Position of the first true flag, or None."""
    found = np.flatnonzero(np.asarray(flags))
    return int(found[0]) if len(found) else None


def with_value(array, at, value):
    """A copy of an array with another value at one position."""
    if at is None:
        return None
    new = pa.array([value], array.type)
    return pa.concat_arrays([array.slice(0, at), new, array.slice(at + 1)])


def flip_byte(array):
    lengths = pa.compute.fill_null(pa.compute.binary_length(array), 0).to_numpy(zero_copy_only=False)
    at = first(lengths > 0)
    if at is None:
        return None
    value = bytearray(array[at].as_py())
    value[-1] ^= 1
    return with_value(array, at, bytes(value))


def null_to_empty(array):
    return with_value(array, first(pa.compute.is_null(array)), b"")


def empty_to_null(array):
    lengths = pa.compute.fill_null(pa.compute.binary_length(array), 1).to_numpy(zero_copy_only=False)
    return with_value(array, first(lengths == 0), None)


def flip_float_bit(array):
    """The lowest bit of a NaN, or the sign of a zero."""
    values = array.to_numpy(zero_copy_only=False)
    bits = pa.compute.fill_null(array.view(pa.int64()), 0).to_numpy(zero_copy_only=False).copy()
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    at = first(valid & np.isnan(values))
    if at is not None:
        bits[at] ^= 1
    else:
        at = first(valid & (values == 0))
        if at is None:
            return None
        bits[at] ^= np.int64(-(1 << 63))
    return pa.array(bits, mask=~valid).view(pa.float64())


def null_list_to_empty(array):
    return with_value(array, first(pa.compute.is_null(array)), [])


def move_border(array):
    """One item goes from a list to its neighbour."""
    offsets = array.offsets.to_numpy().copy()
    lengths = np.diff(offsets)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    at = first((lengths[:-1] > 0) & valid[:-1] & valid[1:])
    if at is None:
        return None
    offsets[at + 1] -= 1
    make = type(array)
    mask = pa.array(~valid) if array.null_count else None
    return make.from_arrays(pa.array(offsets), array.values, type=array.type, mask=mask)


def null_struct_to_nulls(array):
    if pa.compute.is_null(array).true_count == 0:
        return None
    return pa.StructArray.from_arrays(array.flatten(), fields=list(array.type))


def shift_position(array):
    index = array.type.get_field_index("position")
    if index < 0 or array.type.get_field_index("kind") < 0:
        return None
    at = first(array.is_valid().to_numpy(zero_copy_only=False))
    if at is None:
        return None
    value = array[at].as_py()
    return with_value(array, at, {**value, "position": value["position"] + 1})


def only_rows(change):
    return lambda table, want: change(table) if "rows" in want and table.num_rows > 1 else table


def reverse(table):
    return table.take(pa.array(np.arange(table.num_rows)[::-1]))


def merge_duplicates(table):
    ids = table.schema.get_field_index("id")
    if ids < 0:
        return table
    _, kept = np.unique(table.column(ids).to_numpy(), return_index=True)
    return table.take(pa.array(np.sort(kept)))


def off_by_one(table, want):
    return table.slice(1) if want.get("offset") else table


def drop_last(table, want):
    return table.slice(0, max(0, table.num_rows - 1))


def schema_fault(change):
    def fault(table, want):
        schema = change(table.schema)
        return pa.Table.from_arrays([one(c) for c in table.columns], schema=schema) if schema else table

    return fault


def lose_metadata(schema):
    return pa.schema([f.remove_metadata() for f in schema], metadata=schema.metadata)


def lose_nullability(schema):
    return pa.schema([f.with_nullable(True) for f in schema], metadata=schema.metadata)


def other_type(table, want):
    at = first([f.type == pa.utf8() for f in table.schema])
    if at is None:
        return table
    field = table.schema.field(at).with_type(pa.large_utf8())
    return table.set_column(at, field, table.column(at).cast(pa.large_utf8())).replace_schema_metadata(
        table.schema.metadata
    )


def swap_columns(table, want):
    names = table.schema.names
    return table.select([*names[1:], names[0]]) if len(names) > 1 else table


def wrong_row_ids(table, want):
    at = table.schema.get_field_index("_rowaddr")
    return table if at < 0 else replaced(table, at, pa.compute.add(one(table.column(at)), pa.scalar(1, pa.uint64())))


is_list = pa.types.is_list
FAULTS = {
    "order of rows lost": only_rows(reverse),
    "duplicates merged": only_rows(merge_duplicates),
    "offset off by one": off_by_one,
    "last row missing": drop_last,
    "one byte changed": on(pa.types.is_large_binary, flip_byte),
    "null value empty": on(pa.types.is_large_binary, null_to_empty),
    "empty value null": on(pa.types.is_large_binary, empty_to_null),
    "one bit of a float": on(pa.types.is_float64, flip_float_bit),
    "null list empty": on(is_list, null_list_to_empty),
    "border of a list": on(is_list, move_border),
    "null struct as struct of nulls": on(pa.types.is_struct, null_struct_to_nulls),
    "position of a descriptor": on(pa.types.is_struct, shift_position),
    "wrong row addresses": wrong_row_ids,
    "columns swapped": swap_columns,
    "another type": other_type,
    "field metadata lost": schema_fault(lose_metadata),
    "schema metadata lost": schema_fault(lambda s: s.remove_metadata()),
    "nullability lost": schema_fault(lose_nullability),
}
