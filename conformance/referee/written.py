"""Data files that this project writes, put into tables by pylance.

`tools/writefile` turns an Arrow file into a data file and reads it back; pylance then commits a table whose only
fragments are such files, and from there on it is pylance's own.
"""

import dataclasses
import json
import pathlib
import subprocess
import uuid

import lance
import pyarrow as pa
from lance.fragment import DataFile

from . import blobs, columns
from .columns import NULLS, PATTERNS


@dataclasses.dataclass(frozen=True)
class Case:
    group: str
    version: str
    rows: int
    pattern: str
    nulls: str
    cut: str

    def __str__(self):
        return "-".join(str(v) for v in dataclasses.astuple(self))


DIMENSIONS = {
    "group": ("plain", "nested", "encoded", "blobs"),
    "version": ("2.2", "2.3"),
    "rows": (1, 5, 1000, 20000, 100_000),
    "pattern": PATTERNS,
    "nulls": tuple(NULLS),
    "cut": ("one", "batches", "pages"),  # one batch; batches of odd lengths; these and pages of some kilobytes
}


def json_of(numbers):
    return [json.dumps({"n": int(v), "tags": ["é", None, v % 3 == 0, v / 7]}) for v in numbers]


def fields_of(case):
    if case.group == "blobs":
        fields = blobs.blob_fields()
        if case.nulls in ("all", "inner"):  # a list of blobs without one visible element panics in pylance
            fields = [f for f in fields if not blobs.in_list(f)]
        return fields
    fields = {"plain": columns.plain_fields, "nested": columns.nested_fields, "encoded": columns.encoded_fields}[
        case.group
    ]()
    if case.version == "2.3" and case.nulls in ("all", "inner", "most"):
        # pylance 2.3 cannot read wide fixed-size lists whose items are all null
        fields = [f for f in fields if f.name not in ("vector4", "vector_i8", "vector_f16", "matrix")]
    return fields


def stored(field):
    """The field without the referee's own notes."""
    kept = {k: v for k, v in (field.metadata or {}).items() if k != b"referee"}
    return field.with_metadata(kept or None)


def payload(field):
    """The field with plain bytes where it has blobs."""
    kind = field.type
    if blobs.is_marked(field):
        return pa.field(field.name, pa.large_binary(), field.nullable)
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([payload(f) for f in kind]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(payload(kind.value_field)))
    if pa.types.is_large_list(kind):
        return field.with_type(pa.large_list(payload(kind.value_field)))
    return field


def rows_of(case, rng):
    """The table's schema, and its rows with plain bytes for blobs."""
    fields = fields_of(case)
    made = []
    for number, field in enumerate(fields):
        numbers = columns.pattern_seeds(case.pattern, case.rows, rng)
        own = columns.mixed(numbers, number) if case.pattern != "constant" else numbers
        made.append(columns.build(payload(field), own, NULLS[case.nulls], rng))
    schema = pa.schema([stored(f) for f in fields])
    return schema, pa.table(made, schema=pa.schema([payload(f) for f in schema]))


class Writer:
    """Writes files below a folder by the program writefile."""

    def __init__(self, program, root):
        self.program, self.root = program, pathlib.Path(root)

    def write(self, schema, rows, version, copies=1, cut="one", check=True):
        """A dataset at a fresh path with the rows, as often as asked for."""
        home = self.root / uuid.uuid4().hex
        (home / "table" / "data").mkdir(parents=True)
        lance.write_dataset(schema.empty_table(), str(home / "model"), data_storage_version=version)
        manifest = next((home / "model" / "_versions").glob("*.manifest"))
        source = home / "rows.arrow"
        with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as out:
            out.write_table(rows)
        command = [self.program, "-manifest", manifest, "-version", version, f"-check={str(check).lower()}"]
        if cut != "one":
            command += ["-batch-rows", str(rows.num_rows // 7 + 3)]
        if cut == "pages":
            command += ["-page-bytes", "5000"]
        name = f"{uuid.uuid4().hex}.lance"
        done = subprocess.run(
            [*map(str, command), str(source), str(home / "table" / "data" / name)],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert (home / "table" / "data" / name).stat().st_size == told["size"]
        file = DataFile(name, told["fields"], told["column_indices"], told["major"], told["minor"], told["size"])
        fragments = [lance.FragmentMetadata(i, [file], told["rows"]) for i in range(copies)]
        lance.LanceDataset.commit(str(home / "table"), lance.LanceOperation.Overwrite(schema, fragments))
        return lance.dataset(str(home / "table"))
