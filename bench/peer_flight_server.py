#!/usr/bin/env python3
"""The peer: the Flight server a user would write today, pylance behind pyarrow.flight (C++).

    python peer_flight_server.py ROOT [--port 0]

ROOT holds folders NAME.lance. Once ready it prints

    flightblob-peer listening on grpc://127.0.0.1:PORT

It answers the JSON tickets and DoPut commands of flightblob as far as pylance can, GetFlightInfo for a path or a
ticket, and Flight SQL statements over one table through pylance's own SQL. For each it takes the fastest way that
pylance 14.0.2 offers; the measurements behind the choices are in README.md. It listens on loopback only and has no
authentication: it is an opponent for benchmarks, not a product.
"""

import argparse
import json
import pathlib
import re
import secrets
import time

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.flight as fl

BATCH_BYTES = 4 << 20
MAX_ROWS = 65_536  # rows of a batch without payload; smaller and larger ones are slower
FILTERED_ROWS = 8192  # the same under a filter, with the other columns read late
HANDLING = {"bytes": "all_binary", "descriptor": "all_descriptions"}
DESCRIPTOR = ["kind", "position", "size", "blob_id", "blob_uri"]
TICK = 20_000_000  # nanoseconds: a folder changed this recently may change again without a new time stamp


# ---------------------------------------------------------------- tables


class Table:
    """An open table that is opened anew only when its folder of versions has changed."""

    def __init__(self, path):
        self.path = path
        self.latest = None
        self.opened = 0
        self.stamp = None
        self.pinned = {}
        self.value_bytes = {}

    def at(self, want):
        version = want.get("version") or want.get("tag")
        if want.get("branch"):
            version = (want["branch"], version)
        if version is not None:
            if version not in self.pinned:
                self.pinned[version] = lance.dataset(str(self.path)).checkout_version(version)
            return self.pinned[version]
        try:
            stamp = (self.path / "_versions").stat().st_mtime_ns
        except FileNotFoundError:
            raise fl.FlightServerError(f"table {self.path.stem} not found") from None
        if self.latest is None or stamp != self.stamp or self.opened - stamp < TICK:
            self.opened = time.time_ns()
            self.latest = lance.dataset(str(self.path))
            self.stamp = stamp
            self.value_bytes.clear()
        return self.latest

    def row_bytes(self, dataset, columns):
        """Payload bytes of an average row, from the descriptors of the first thousand."""
        key = (dataset.version, tuple(columns or ()))
        if key not in self.value_bytes:
            head = dataset.scanner(columns=columns, limit=1000, blob_handling="all_descriptions").to_table()
            total = sum(payload_bytes(chunk) for column in head.columns for chunk in column.chunks)
            self.value_bytes[key] = total / max(1, len(head))
        return self.value_bytes[key]


def is_descriptor(kind):
    return pa.types.is_struct(kind) and [f.name for f in kind] == DESCRIPTOR


def payload_bytes(array):
    """Sum of the sizes in all descriptors of an array, however deep they lie."""
    if is_descriptor(array.type):
        return pa.compute.sum(array.field("size")).as_py() or 0
    if pa.types.is_struct(array.type):
        return sum(payload_bytes(child) for child in array.flatten())
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return payload_bytes(array.flatten())
    return 0


def is_blob(field):
    return isinstance(field.type, lance.blob.BlobType) or (field.metadata or {}).get(b"lance-encoding:blob") == b"true"


def has_blob(field):
    if is_blob(field):
        return True
    return any(has_blob(field.type.field(i)) for i in range(field.type.num_fields))


# ---------------------------------------------------------------- reading


def scan(table, dataset, want):
    handling = HANDLING[want.get("blobs", "bytes")]
    columns = want.get("columns")
    rows = MAX_ROWS
    average = table.row_bytes(dataset, columns) if handling == "all_binary" else 0
    if average:
        # A count of rows, never batch_size_bytes: with payloads that halves the speed.
        rows = int(max(1, min(MAX_ROWS, want.get("batch_bytes", BATCH_BYTES) / average)))
    elif want.get("filter"):
        rows = FILTERED_ROWS
    return dataset.scanner(
        columns=columns,
        filter=want.get("filter"),
        late_materialization=True if want.get("filter") else None,
        limit=want.get("limit"),
        offset=want.get("offset"),
        batch_size=rows,
        blob_handling=handling,
    )


def addresses(dataset, rows):
    """Row addresses of positions in scan order. Without deletions they follow from the fragments' lengths."""
    lengths = [f.count_rows() for f in dataset.get_fragments()]
    ids = [f.fragment_id for f in dataset.get_fragments()]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    which = np.searchsorted(starts, rows, side="right") - 1
    return (np.array(ids, np.int64)[which] << 32) | (rows - starts[which])


def take(table, dataset, want):
    rows = want["rows"]
    columns = want.get("columns") or dataset.schema.names
    if want.get("blobs", "bytes") == "descriptor":
        return dataset.take(rows, columns=columns)
    fields = [dataset.schema.field(c) for c in columns]
    blobs = [f.name for f in fields if is_blob(f)]
    if len(rows) == 1 and columns != blobs and table.row_bytes(dataset, columns) < 1 << 20:
        one = dataset.scanner(
            columns=columns, limit=1, offset=rows[0], batch_size=1, blob_handling="all_binary"
        ).to_table()
        if not one.num_rows:
            raise fl.FlightServerError(f"row {rows[0]} is out of range")
        return one
    nested = any(has_blob(f) for f in fields if f.name not in blobs)
    large = len(rows) >= 32 and len(rows) * table.row_bytes(dataset, columns) >= 2 << 20
    if (nested or large) and not any(f.num_deletions for f in dataset.get_fragments()):
        return take_by_scan(dataset, columns, rows)
    if nested:
        raise fl.FlightServerError("pylance takes no nested blobs by row from a table with deletions")
    plain = [c for c in columns if c not in blobs]
    taken = dataset.take(rows, columns=plain) if plain else None
    made = {}
    for name in columns:
        if name in blobs:
            made[name] = binary([v for _, v in dataset.read_blobs(name, indices=rows, preserve_order=True)])
        else:
            made[name] = taken[name]
    return pa.table(made)


def take_by_scan(dataset, columns, rows):
    """Many large values, and nested ones: a scan restricted to row addresses beats read_blobs."""
    distinct, order = np.unique(np.array(rows, np.int64), return_inverse=True)
    scanner = dataset.scanner(
        columns=columns,
        filter=f"_rowaddr in ({','.join(map(str, addresses(dataset, distinct)))})",
        batch_size=len(distinct),
        blob_handling="all_binary",
    )
    return scanner.to_table().combine_chunks().take(pa.array(order))


def binary(values):
    if len(values) == 1 and values[0] is not None:  # the common point read: no copy
        offsets = np.array([0, len(values[0])], np.int64)
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(values[0])]
        )
    return pa.array(values, pa.large_binary())


def ranges(dataset, want):
    found = dataset.read_blob_ranges(want["column"], [tuple(r) for r in want["ranges"]], selector="indices")
    request = pa.array([n for n, _, _ in found], pa.uint32())
    return pa.table({"request": request, "bytes": binary([v for _, _, v in found])})


# ---------------------------------------------------------------- writing


def aligned_batch(batch, schema):
    """The batch with its numbers on 8-byte boundaries: received buffers lie anywhere, and pylance panics on those.

    Only offsets and fixed-width values are copied; the bytes of binary values need no alignment.
    """
    return pa.RecordBatch.from_arrays([aligned(column) for column in batch.columns], schema=schema)


def aligned(array):
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, aligned(array.storage))
    buffers = array.buffers()
    if pa.types.is_struct(kind):
        children = [aligned(array.field(i)) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(array), buffers[:1], -1, array.offset, children)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        own = [buffers[0], moved(buffers[1])]
        return pa.Array.from_buffers(kind, len(array), own, -1, array.offset, [aligned(array.values)])
    if len(buffers) not in (2, 3) or pa.types.is_dictionary(kind) or pa.types.is_fixed_size_list(kind):
        return array.copy_to(pa.default_cpu_memory_manager())
    return pa.Array.from_buffers(kind, len(array), [buffers[0], moved(buffers[1]), *buffers[2:]], -1, array.offset)


def moved(buffer):
    if buffer is None or buffer.address % 8 == 0:
        return buffer
    return pa.py_buffer(buffer.to_pybytes())


# ---------------------------------------------------------------- Flight SQL


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def message(data):
    """Length-delimited fields of a protobuf message; a statement needs no others."""
    fields, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 != 2:
            raise fl.FlightServerError("command not understood")
        size, at = varint(data, at)
        fields[tag >> 3] = data[at : at + size]
        at += size
    return fields


def statement(command):
    wrapped = message(command)
    if not wrapped.get(1, b"").endswith(b"sql.CommandStatementQuery"):
        raise fl.FlightServerError(f"{wrapped.get(1)!r} is not implemented")
    return message(wrapped[2])[1].decode()


# ---------------------------------------------------------------- the server


class Peer(fl.FlightServerBase):
    def __init__(self, root, location):
        super().__init__(location)
        self.root = root
        self.tables = {}
        self.started = {}  # statements that wait for their DoGet

    def table(self, name):
        if not re.fullmatch(r"[\w-]+", name):
            raise fl.FlightServerError(f"table name {name!r} is not allowed")
        return self.tables.setdefault(name, Table(self.root / f"{name}.lance"))

    def do_get(self, context, ticket):
        want = json.loads(ticket.ticket)
        if "statement" in want:
            return fl.RecordBatchStream(self.started.pop(want["statement"]))
        table = self.table(want["table"])
        dataset = table.at(want)
        if "ranges" in want:
            return fl.RecordBatchStream(ranges(dataset, want))
        if "rows" in want:
            taken = take(table, dataset, want)
            # Messages of 4 MiB let the client copy while the server sends.
            rows = max(1, int(BATCH_BYTES * taken.num_rows / max(1, taken.nbytes)))
            return fl.RecordBatchStream(taken.to_reader(max_chunksize=rows))
        # The reader is an Arrow C stream: Flight pulls from Rust without Python in between.
        return fl.RecordBatchStream(scan(table, dataset, want).to_reader())

    def get_flight_info(self, context, descriptor):
        if descriptor.descriptor_type == fl.DescriptorType.CMD and not descriptor.command.startswith(b"{"):
            return self.sql(descriptor)
        want = json.loads(descriptor.command) if descriptor.command else {"table": descriptor.path[-1].decode()}
        table = self.table(want["table"])
        dataset = table.at(want)
        want["version"] = dataset.version
        schema = scan(table, dataset, want).projected_schema
        ticket = fl.Ticket(json.dumps(want).encode())
        return fl.FlightInfo(schema, descriptor, [fl.FlightEndpoint(ticket, [])], -1, -1)

    def sql(self, descriptor):
        text = statement(descriptor.command)
        names = re.findall(r'\bfrom\s+"?(\w+)"?', text, re.IGNORECASE)
        dataset = self.table(names[0]).at({}) if names else next(self.any_dataset())
        sized = re.sub(r"\bblob_size\((\w+)\)", r"\1['size']", text)
        handling = "all_binary" if sized == text else "all_descriptions"
        query = dataset.sql(sized).table_name(names[0] if names else "dataset").blob_handling(handling)
        reader = query.build().to_stream_reader()
        if any(is_descriptor(t) for t in reader.schema.types):
            raise fl.FlightServerError("pylance's SQL gives sizes or payloads in one statement, not both")
        token = secrets.token_hex(8)
        self.started[token] = reader
        ticket = fl.Ticket(json.dumps({"statement": token}).encode())
        return fl.FlightInfo(reader.schema, descriptor, [fl.FlightEndpoint(ticket, [])], -1, -1)

    def any_dataset(self):
        for path in sorted(self.root.glob("*.lance")):
            yield self.table(path.stem).at({})

    def list_flights(self, context, criteria):
        for path in sorted(self.root.glob("*.lance")):
            yield self.get_flight_info(context, fl.FlightDescriptor.for_path(path.stem))

    def do_put(self, context, descriptor, reader, writer):
        want = json.loads(descriptor.command) if descriptor.command else {"table": descriptor.path[-1].decode()}
        mode = want.get("mode", "create_append" if descriptor.path else "append")
        table = self.table(want["table"])
        if mode == "create_append":
            mode = "append" if table.path.exists() else "create"
        if mode == "append" and not table.path.exists():
            raise fl.FlightServerError(f"table {want['table']} not found")
        options = {}
        if mode != "append":
            options["data_storage_version"] = want.get("file_version", "2.2")
        external = want.get("blobs", {})
        if external.get("external") == "ingest":
            options["external_blob_mode"] = "ingest"
        elif external.get("allow_outside_bases"):
            options["allow_external_blob_outside_bases"] = True
        before = table.at({}).count_rows() if mode == "append" else 0
        schema = reader.schema
        batches = (aligned_batch(chunk.data, schema) for chunk in reader)
        made = lance.write_dataset(
            pa.RecordBatchReader.from_batches(schema, batches), str(table.path), mode=mode, **options
        )
        done = {"version": made.version, "rows": made.count_rows() - before}
        writer.write(pa.py_buffer(json.dumps(done).encode()))


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("root", type=pathlib.Path, help="folder that holds NAME.lance folders")
    args.add_argument("--port", type=int, default=0, help="0 picks one (default)")
    opts = args.parse_args()
    server = Peer(opts.root, f"grpc://127.0.0.1:{opts.port}")
    print(f"flightblob-peer listening on grpc://127.0.0.1:{server.port}", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
