"""Writes the manifests of this folder. Made with pylance 14.0.2:

    python generate.py .

indexed.manifest has what the shared fixtures lack: an index section, table
configuration, table metadata, stable row ids with an update, a nested column.
moved.manifest notes where two compactions moved rows without their index.
"""
import pathlib
import shutil
import sys
import tempfile

import lance
import pyarrow as pa

out = pathlib.Path(sys.argv[1])
root = pathlib.Path(tempfile.mkdtemp())
try:
    path = str(root / "t.lance")
    batch = pa.table({
        "k": pa.array(range(100), pa.int32()),
        "s": pa.array([{"a": i, "b": [str(i)]} for i in range(100)], pa.struct([("a", pa.int16()), ("b", pa.list_(pa.utf8()))])),
    })
    ds = lance.write_dataset(batch, path, enable_stable_row_ids=True)
    ds.update_config({"lance.auto_cleanup.interval": "1000", "x": "y"})
    ds.update_metadata({"owner": "me"})
    ds.create_scalar_index("k", "BTREE")
    ds.delete("k % 10 = 3")
    ds.update({"k": "k + 1000"}, where="k = 50")
    manifest = sorted((root / "t.lance/_versions").glob("*.manifest"))[0]
    shutil.copy(manifest, out / "indexed.manifest")

    path = str(root / "moved.lance")
    ds = lance.write_dataset(pa.table({"k": pa.array(range(100), pa.int32())}), path, max_rows_per_file=40)
    ds.create_scalar_index("k", "BTREE")
    ds.delete("k % 10 = 3")
    ds.optimize.compact_files(defer_index_remap=True)
    ds = lance.write_dataset(pa.table({"k": pa.array(range(100, 120), pa.int32())}), path, mode="append")
    ds.delete("k % 10 = 4")
    ds.optimize.compact_files(defer_index_remap=True)
    manifest = sorted((root / "moved.lance/_versions").glob("*.manifest"))[0]
    shutil.copy(manifest, out / "moved.manifest")
finally:
    shutil.rmtree(root)
