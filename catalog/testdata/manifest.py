"""Writes ROOT/__manifest with given rows. Usage: manifest.py ROOT ROWS METADATA, the last two as JSON."""
import json, sys

import lance
import pyarrow as pa

root, rows, metadata = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
schema = pa.schema([
    pa.field("object_id", pa.string(), False),
    pa.field("object_type", pa.string(), False),
    pa.field("location", pa.string()),
    pa.field("metadata", pa.string()),
])
ds = lance.write_dataset(pa.Table.from_pylist(rows, schema), f"{root}/__manifest", mode="overwrite")
if metadata:
    ds.update_metadata(metadata)
