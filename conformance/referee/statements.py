"""What is asked about a table in SQL, and how SQL shows what a ticket's answer shows.

Results of SQL have dictionary columns as plain ones and no metadata of the schema; everything else is as in the table.
"""

import pyarrow as pa

from . import oracle
from .compare import difference, metadata, one, schema_difference

LONGEST = (1 << 31) * 86_400  # seconds that an INTERVAL of SQL has
SECONDS = {"s": 1, "ms": 1_000}
FLIGHT = b"ARROW:FLIGHT:SQL:"  # what the protocol adds to columns of GetTables


def plain_field(field):
    return field.with_type(plain_type(field.type))


def plain_type(kind):
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([plain_field(f) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(plain_field(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(plain_field(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(plain_field(kind.value_field), kind.list_size)
    return kind


def plain_array(array):
    """An array with its dictionaries, at the top or in a list, as plain values."""
    kind = array.type
    if plain_type(kind) == kind:
        return array
    if pa.types.is_dictionary(kind):
        return array.dictionary_decode()
    if pa.types.is_list(kind):
        mask = array.is_null() if array.null_count else None
        items = plain_array(array.flatten())
        return pa.ListArray.from_arrays(oracle.relative_offsets(array), items, type=plain_type(kind), mask=mask)
    raise TypeError(f"no column of the matrix is {kind}")


def shown(table):
    """A ticket's answer as SQL shows it."""
    columns = [plain_array(one(c)) for c in table.columns]
    return pa.Table.from_arrays(columns, schema=pa.schema([plain_field(f) for f in table.schema]))


def too_long(table):
    """Columns with a duration that no INTERVAL holds: only statements that compute nothing show them."""
    found = []
    for name in table.schema.names:
        kind = table.schema.field(name).type
        durations = [(kind, table[name])]
        if pa.types.is_struct(kind):
            durations = [(f.type, one(table[name]).flatten()[i]) for i, f in enumerate(kind)]
        for inner, values in durations:
            if pa.types.is_duration(inner) and inner.unit in SECONDS and len(values):
                ends = pa.compute.min_max(values.cast(pa.int64())).as_py()
                limit = LONGEST * SECONDS[inner.unit]
                if ends["min"] is not None and (ends["min"] <= -limit or ends["max"] >= limit):
                    found.append(name)
    return found


def statements(name, table, rng):
    """Statements over a table, with the rows that each must give. `id` rises from row to row."""
    whole = shown(table)
    quoted = f'"{name}"'
    yield f"SELECT * FROM {quoted}", whole
    left_out = too_long(table)
    whole = whole.drop_columns(left_out)
    star = f"* EXCLUDE ({', '.join(left_out)})" if left_out else "*"
    rows = whole.num_rows
    yield f"SELECT {star} FROM {quoted} WHERE id >= 0", whole
    n = rng.randrange(1, rows + 1)
    yield (
        f"SELECT {star} FROM {quoted} ORDER BY id DESC LIMIT {n}",
        whole.take(pa.array(range(rows - 1, rows - 1 - n, -1))),
    )
    offset = rng.randrange(rows)
    yield f"SELECT {star} FROM {quoted} LIMIT 7 OFFSET {offset}", whole.slice(offset, 7)
    odd = whole.filter(pa.compute.equal(pa.compute.bit_wise_and(whole["id"], 1), 1))
    some = f"WITH t AS MATERIALIZED (SELECT {star} FROM {quoted}), u AS (SELECT id AS k FROM t WHERE id % 2 = 1)"
    yield f"{some} SELECT t.* FROM t JOIN u ON t.id = u.k ORDER BY k", odd
    parts = [f"SELECT {star} FROM {quoted} WHERE id % 2 = {part}" for part in (0, 1)]
    yield f"SELECT * FROM ({' UNION ALL '.join(parts)}) ORDER BY id", whole


def asked(connection, sql):
    """The answer to a statement, whose schema is the one that was announced."""
    with connection.cursor() as cursor:
        announced = cursor.adbc_execute_schema(sql)
        cursor.execute(sql)
        got = cursor.fetch_arrow_table()
    told = schema_difference(announced, got.schema)
    assert told is None, f"{sql}: announced otherwise: {told}"
    return got


def wrong(connection, name, table, rng):
    """What is wrong with the answers about a table that must be `table`, if anything is."""
    listed = connection.adbc_get_table_schema(name)
    fields = [
        f.with_metadata({k: v for k, v in metadata(f.metadata).items() if not k.startswith(FLIGHT)} or None)
        for f in listed
    ]
    told = schema_difference(shown(table).schema, pa.schema(fields))
    if told:
        return f"GetTables: {told}"
    for sql, want in statements(name, table, rng):
        told = difference(want, asked(connection, sql))
        if told:
            return f"{sql}: {told}"
    return None
