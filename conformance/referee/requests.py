"""What is asked about a table, and the reading of an answer with an eye on its messages."""

import pyarrow as pa

from . import blobs

MESSAGE = (4 << 20) - (64 << 10)  # encoded bytes that a message stays below, unless one row alone is larger


def paths(field, prefix=""):
    """A field and the dotted paths through structs below it."""
    yield prefix + field.name
    packed = b"lance-encoding:packed" in (field.metadata or {})  # has a test of its own
    if pa.types.is_struct(field.type) and not blobs.is_marked(field) and not packed:
        for child in field.type:
            yield from paths(child, f"{prefix}{field.name}.")


def requests(schema, rows, faces, rng):
    """Tickets for one table, from the whole of it to single rows and columns."""
    for face in faces:
        yield {"blobs": face}
    everything = [p for f in schema for p in paths(f)]
    for _ in range(3):
        face = rng.choice(faces)
        yield {"blobs": face, "offset": rng.randrange(rows + 1), "limit": rng.randrange(rows + 2)}
        yield {"blobs": face, "rows": [rng.randrange(rows) for _ in range(rng.choice([1, 7, 50]))]}
        some = rng.sample(everything, rng.randint(1, min(6, len(everything))))
        yield {"blobs": face, "columns": ["_rowid", *some, "_rowaddr"]}
    yield {"offset": rows, "limit": 5}
    yield {"limit": 0}
    yield {"rows": [rows - 1, 0, rows - 1, 0]}
    some = rng.sample(everything, min(3, len(everything)))
    yield {"columns": some, "rows": sorted(rng.randrange(rows) for _ in range(20))}
    yield {"columns": some, "limit": 400, "batch_bytes": 1024}


def read(client, want):
    """The whole answer; on the way every message is looked at."""
    reader = client.reader(**want)
    batches = []
    for chunk in reader:
        batch = chunk.data
        assert batch.num_rows > 0 or not batches, f"{want}: an empty batch among others"
        batches.append(batch)
    return pa.Table.from_batches(batches, schema=reader.schema)
