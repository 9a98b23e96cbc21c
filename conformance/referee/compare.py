"""Exact comparison of Arrow answers: every bit of a value, every null, every border of a list.

Nothing is rounded and nothing is forgiven: NaNs differ when their bits do, -0.0 is not 0.0, null is not empty, and the
order of rows counts. Only the cutting into batches, hidden bytes under nulls and the order of a dictionary do not.
"""

import numpy as np
import pyarrow as pa

IGNORED_KEYS = {b"ARROW:extension:metadata"}  # empty by the format's rules, and dropped by some writers (SCH-1, MAT-2)

FLOATS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def metadata(of):
    """Key-value metadata of a field or schema without the keys that carry no meaning."""
    return {k: v for k, v in (of or {}).items() if k not in IGNORED_KEYS}


def field_difference(want, got, path):
    """What tells two fields apart: name, type at any depth, nullability, metadata. None when nothing does."""
    if want.name != got.name:
        return f"{path}: name {got.name!r} instead of {want.name!r}"
    if want.nullable != got.nullable:
        return f"{path}: nullable {got.nullable} instead of {want.nullable}"
    if metadata(want.metadata) != metadata(got.metadata):
        return f"{path}: metadata {metadata(got.metadata)} instead of {metadata(want.metadata)}"
    a, b = want.type, got.type
    if a.id != b.id or a.num_fields != b.num_fields:
        return f"{path}: type {b} instead of {a}"
    if pa.types.is_map(a):  # entries and key names are fixed by Arrow; the two children count
        return field_difference(a.key_field, b.key_field, f"{path}.key") or field_difference(
            a.item_field, b.item_field, f"{path}.value"
        )
    if pa.types.is_fixed_size_list(a) and a.list_size != b.list_size:
        return f"{path}: type {b} instead of {a}"
    if a.num_fields == 0 and a != b:
        return f"{path}: type {b} instead of {a}"
    for i in range(a.num_fields):
        told = field_difference(a.field(i), b.field(i), f"{path}.{a.field(i).name}")
        if told:
            return told
    return None


def schema_difference(want, got):
    """What tells two schemas apart, their own metadata included. None when nothing does."""
    if want.names != got.names:
        return f"columns {got.names} instead of {want.names}"
    if metadata(want.metadata) != metadata(got.metadata):
        return f"schema metadata {metadata(got.metadata)} instead of {metadata(want.metadata)}"
    for a, b in zip(want, got):
        told = field_difference(a, b, a.name)
        if told:
            return told
    return None


def one(column):
    """A column as a single array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    try:
        return column.combine_chunks()
    except pa.ArrowInvalid:  # Arrow joins no dictionaries that hold nulls, which pylance's 2.0 reader makes
        return pa.concat_arrays([without_null_entries(chunk) for chunk in column.chunks])


def without_null_entries(array):
    """The same values with dictionaries that hold no null."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        encoded = array.dictionary_decode().dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)
    if pa.types.is_struct(kind):
        children = [without_null_entries(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.diff(array.offsets.to_numpy()), 0)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), array.offsets.type)
        return type(array).from_arrays(offsets, without_null_entries(array.flatten()), type=kind, mask=array.is_null())
    return array


def masked(array, wanted):
    """The rows of an array where `wanted` (numpy booleans) holds."""
    return array if wanted.all() else array.filter(pa.array(wanted))


def rows_of(wanted, numbers):
    return numbers if wanted.all() else numbers[wanted]


def first_unequal(a, b):
    """Position of the first value that differs between arrays of one length and without children; None if none."""
    if a.equals(b):
        return None
    low, high = 0, len(a)
    while high - low > 1:  # the first half that differs
        middle = (low + high) // 2
        if a.slice(low, middle - low).equals(b.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


def show(value):
    text = repr(value.as_py() if isinstance(value, pa.Scalar) else value)
    return text if len(text) < 90 else f"{text[:70]}… ({len(text)} characters)"


def array_difference(want, got, path, numbers=None):
    """Where two arrays of one type differ, told with the number of the top-level row. None when they do not."""
    if len(want) != len(got):
        return f"{path}: {len(got)} values instead of {len(want)}"
    if numbers is None:
        numbers = np.arange(len(want))
    if len(want) == 0 or pa.types.is_null(want.type):
        return None
    valid, other = want.is_valid().to_numpy(zero_copy_only=False), got.is_valid().to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(valid != other)
    if len(wrong):
        at = int(wrong[0])
        return f"{path}: row {numbers[at]}: {brief(got[at])} instead of {brief(want[at])}"
    kind = want.type
    if pa.types.is_struct(kind):
        numbers = rows_of(valid, numbers)
        want, got = masked(want, valid), masked(got, valid)
        for i in range(kind.num_fields):
            name = kind.field(i).name
            told = array_difference(want.flatten()[i], got.flatten()[i], f"{path}.{name}", numbers)
            if told:
                return told
        return None
    if pa.types.is_fixed_size_list(kind):
        numbers = np.repeat(rows_of(valid, numbers), kind.list_size)
        want, got = masked(want, valid), masked(got, valid)
        return array_difference(want.flatten(), got.flatten(), f"{path}[]", numbers)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        numbers = rows_of(valid, numbers)
        want, got = masked(want, valid), masked(got, valid)
        lengths, others = lengths_of(want), lengths_of(got)
        wrong = np.flatnonzero(lengths != others)
        if len(wrong):
            at = int(wrong[0])
            return f"{path}: row {numbers[at]}: a list of {others[at]} instead of {lengths[at]}"
        return array_difference(items_of(want), items_of(got), f"{path}[]", np.repeat(numbers, lengths))
    if pa.types.is_dictionary(kind):
        want, got = want.dictionary_decode(), got.dictionary_decode()
    elif kind in FLOATS:
        bits_a, bits_b = want.view(FLOATS[kind]), got.view(FLOATS[kind])
        at = first_unequal(bits_a, bits_b)
        if at is not None:
            return f"{path}: row {numbers[at]}: bits {show(bits_b[at])} instead of {show(bits_a[at])}"
        return None
    at = first_unequal(want, got)
    if at is not None:
        return f"{path}: row {numbers[at]}: {brief(got[at])} instead of {brief(want[at])}"
    return None


def brief(scalar):
    return "null" if not scalar.is_valid else show(scalar)


def lengths_of(lists):
    offsets = lists.offsets.to_numpy()
    return np.diff(offsets)


def items_of(lists):
    """The items of all lists, none of which is null."""
    offsets = lists.offsets
    if pa.types.is_map(lists.type):
        first, last = offsets[0].as_py(), offsets[len(offsets) - 1].as_py()
        fields = [lists.type.key_field, lists.type.item_field]
        both = pa.StructArray.from_arrays([lists.keys, lists.items], fields=fields)
        # keys and items begin at the array's own offset in some releases and at zero in others
        return both if len(both) == last - first else both.slice(first, last - first)
    return lists.flatten()


def difference(want, got):
    """What tells two tables apart: schema first, then the number of rows, then values. None when nothing does."""
    told = schema_difference(want.schema, got.schema)
    if told:
        return told
    if want.num_rows != got.num_rows:
        return f"{got.num_rows} rows instead of {want.num_rows}"
    for name, a, b in zip(want.schema.names, want.columns, got.columns):
        told = array_difference(one(a), one(b), name)
        if told:
            return told
    return None
