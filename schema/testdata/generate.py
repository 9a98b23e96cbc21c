"""Writes the goldens of this folder. Made with pylance 14.0.2 and pyarrow 26.0.1:

    python generate.py FIXTURES .

views.txt     what a scan's reader shows as schema: for types.manifest and for
              the newest version of each fixture table, with blobs as bytes and
              as descriptors. One line for each field: name, C data interface
              format, nullability, metadata (raw, extension names included).
types.manifest the manifest of a table with every logical type.
"""
import ctypes
import json
import pathlib
import shutil
import sys
import tempfile
import warnings

import lance
import pyarrow as pa

warnings.filterwarnings("ignore")


class ArrowSchema(ctypes.Structure):
    pass


ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p), ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.POINTER(ArrowSchema)), ("release", ctypes.c_void_p), ("private", ctypes.c_void_p),
]
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def metadata(at):
    out = {}
    if at:
        def number():
            nonlocal at
            at += 4
            return ctypes.c_int32.from_address(at - 4).value

        def text():
            nonlocal at
            n = number()
            at += n
            return ctypes.string_at(at - n, n).decode()

        for _ in range(number()):
            key = text()
            out[key] = text()
    return out


def show(c, indent, out):
    null = "null" if c.flags & 2 else "notnull"
    meta = json.dumps(metadata(c.metadata), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    out.append(f"{'  ' * indent}{c.name.decode()} {c.format.decode()} {null} {meta}")
    for i in range(c.n_children):
        show(c.children[i].contents, indent + 1, out)
    if c.dictionary:
        out.append(f"{'  ' * indent}  of {c.dictionary.contents.format.decode()}")


def dump(title, path, out):
    ds = lance.dataset(path)
    for handling in ("all_binary", "blobs_descriptions"):
        out.append(f"# {title} {handling}")
        capsule = ds.scanner(blob_handling=handling).to_reader().schema.__arrow_c_schema__()
        top = ArrowSchema.from_address(pointer(capsule, b"arrow_schema"))
        out.append("schema " + json.dumps(metadata(top.metadata), sort_keys=True, separators=(",", ":")))
        for i in range(top.n_children):
            show(top.children[i].contents, 0, out)


def types():
    blob = {"ARROW:extension:name": "lance.blob.v2", "note": "kept", "lance-encoding:blob-inline-size-threshold": "7"}
    shape = [pa.field("data", pa.large_binary(), metadata={"child": "1"}), pa.field("uri", pa.utf8())]
    shape4 = shape + [pa.field("position", pa.uint64(), nullable=False), pa.field("size", pa.uint64())]
    f = pa.field
    plain = [pa.null(), pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(),
             pa.float16(), pa.float32(), pa.float64(), pa.utf8(), pa.large_utf8(), pa.binary(), pa.large_binary(),
             pa.string_view(), pa.binary_view(), pa.binary(3), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"),
             pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "+08:00"),
             pa.timestamp("ns", "Europe/Berlin"), pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns"),
             pa.decimal128(38, 38), pa.decimal128(10, -2), pa.decimal256(76, 3), pa.dictionary(pa.int8(), pa.utf8()),
             pa.dictionary(pa.uint32(), pa.int64()), pa.dictionary(pa.int16(), pa.large_binary())]
    fields = [f(f"c{i}", t, nullable=i % 3 != 0 or t == pa.null()) for i, t in enumerate(plain)]
    fields += [
        f("described", pa.int8(), metadata={"k": "v", "ü": "ö"}),
        f("fsl", pa.list_(f("el", pa.float32(), nullable=False, metadata={"lost": "x"}), 4)),
        f("fsl2", pa.list_(pa.list_(pa.float16(), 4), 2)),
        f("fsl_bool", pa.list_(pa.bool_(), 3)),
        f("fsl_decimal", pa.list_(pa.decimal128(5, 2), 2)),
        f("fsl_zone", pa.list_(pa.timestamp("us", "+08:00"), 2)),
        f("fsl_bf16", pa.list_(f("item", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"}), 4)),
        f("bf16", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"}),
        f("fsl_struct", pa.list_(f("it", pa.struct([f("a", pa.int32()), f("b", pa.utf8(), nullable=False)]), nullable=False), 2)),
        f("list", pa.list_(f("it", pa.int32(), nullable=False, metadata={"x": "y"}))),
        f("large", pa.large_list(pa.struct([f("a", pa.list_(pa.utf8()))])), nullable=False),
        f("map", pa.map_(pa.utf8(), f("value", pa.struct([f("deep", pa.int8())]), nullable=False))),
        f("json", pa.json_(pa.utf8())),
        f("jsons", pa.list_(f("j", pa.json_(pa.large_utf8())))),
        f("uuid", pa.uuid()),
        f("own", pa.binary(), metadata={"ARROW:extension:name": "my.type", "ARROW:extension:metadata": "p=1"}),
        f("packed", pa.struct([f("a", pa.int32()), f("b", pa.float64(), nullable=False)]), metadata={"lance-encoding:packed": "true"}),
        f("packed_old", pa.struct([f("a", pa.int32())]), metadata={"packed": "TRUE"}),
        f("unpacked", pa.struct([f("a", pa.int32())]), metadata={"packed": "no"}),
        f("nothing", pa.struct([])),
        f("blob", pa.struct(shape), metadata=blob),
        f("blob4", pa.struct(shape4), metadata=blob, nullable=False),
        f("blobs", pa.large_list(f("b", pa.struct(shape4), metadata=blob, nullable=False))),
        f("deep", pa.struct([f("l", pa.list_(pa.struct([f("b", pa.struct(shape), metadata=blob), f("n", pa.int8())])))])),
        f("looks", pa.struct(shape)),
    ]
    return pa.schema(fields, metadata={"top": "level"})


def main(fixtures, out):
    lines = []
    root = pathlib.Path(tempfile.mkdtemp())
    try:
        lance.write_dataset(pa.RecordBatchReader.from_batches(types(), []), str(root / "t.lance"), data_storage_version="2.2")
        dump("types", str(root / "t.lance"), lines)
        (manifest,) = (root / "t.lance/_versions").glob("*.manifest")
        shutil.copy(manifest, out / "types.manifest")
        marked = {"lance-encoding:blob": "false", "note": "x"}
        legacy = pa.schema([
            pa.field("b", pa.large_binary(), metadata=marked), pa.field("s", pa.struct([pa.field("b", pa.binary(), metadata=marked)])),
            pa.field("plain", pa.large_binary()),
        ])
        lance.write_dataset(pa.RecordBatchReader.from_batches(legacy, []), str(root / "l.lance"), data_storage_version="2.1")
        dump("legacy", str(root / "l.lance"), lines)
        (manifest,) = (root / "l.lance/_versions").glob("*.manifest")
        shutil.copy(manifest, out / "legacy.manifest")
    finally:
        shutil.rmtree(root)
    for table in sorted(fixtures.glob("*/*.lance")):
        dump(f"{table.parent.name}/{table.name}", str(table), lines)
    (out / "views.txt").write_text("\n".join(lines) + "\n")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
