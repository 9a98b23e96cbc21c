"""The table that the tests of clients read: one picture of each kind of storage."""

import datetime

import lance
import pyarrow as pa

from . import blobs, stock

SIZES = [10, 3000, 0, None, 700_000, 17 << 20]  # inline, packed, empty, null, dedicated, more than ADBC takes
LARGE = len(SIZES) - 1
WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
UNSIGNED = (1 << 63) + 1
COLUMNS = ["id", "name", "serial", "taken", "img"]
# Minutes of work for any engine, so that what ends early was ended.
ENDLESS = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"
# The type that each face gives a blob column.
FACES = {
    "bytes": pa.large_binary(),
    "descriptor": pa.struct(
        [
            pa.field("kind", pa.uint8(), False),
            pa.field("position", pa.uint64(), False),
            pa.field("size", pa.uint64(), False),
            pa.field("blob_id", pa.uint32(), False),
            pa.field("blob_uri", pa.utf8(), False),
        ]
    ),
    "logical": blobs.COMPLETE,
}


def value(row):
    """The picture of a row."""
    return None if SIZES[row] is None else stock.payload(row, SIZES[row])


def shown(row, face):
    """The picture of a row as a face shows it; of a descriptor only its size, which is what the row decides."""
    data = value(row)
    if data is None or face == "bytes":
        return data
    if face == "descriptor":
        return len(data)
    return {"data": data, "uri": None, "position": None, "size": None}


def write(root):
    """The table `pictures` below a root, in three fragments, so that a server may cut it into endpoints."""
    metadata = {
        "lance-encoding:blob-inline-size-threshold": "64",
        "lance-encoding:blob-dedicated-size-threshold": "65536",
    }
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), False),
            pa.field("name", pa.utf8()),
            pa.field("serial", pa.uint64()),
            pa.field("taken", pa.timestamp("us", "UTC")),
            blobs.blob("img", complete=False, metadata=metadata),
        ]
    )
    rows = [
        {
            "id": i,
            "name": f"picture {i}",
            "serial": UNSIGNED,
            "taken": WHEN,
            "img": None if value(i) is None else {"data": value(i)},
        }
        for i in range(len(SIZES))
    ]
    lance.write_dataset(
        pa.Table.from_pylist(rows, schema),
        str(root / "pictures.lance"),
        data_storage_version="2.2",
        max_rows_per_file=2,
    )
