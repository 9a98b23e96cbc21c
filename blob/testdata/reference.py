"""Writes blob tables with pylance and shows what it stored, for the tests of this package.

    python reference.py FOLDER
    python reference.py FOLDER read

For each NAME.arrow in FOLDER, an Arrow stream, one line of JSON on stdout: {"name", "error"} with the error null when
pylance took it. NAME.json beside it gives the arguments of lance.write_dataset, with "bases" as lists of the arguments
of lance.DatasetBasePath. NAME.lance is the table then, and NAME.out its descriptors as an Arrow stream.

With "read", for each table NAME.ours: {"name", "error", "descriptors", "bytes", "read"}, whether pylance sees the same
in it as in NAME.lance. Reading bytes fails for tables that refer to places that are not there, equally on both sides;
"read" is false then.
"""

import json
import pathlib
import sys
import warnings

import lance
import pyarrow as pa

warnings.filterwarnings("ignore")


def write(folder, name, options):
    bases = [lance.DatasetBasePath(*b) for b in options.pop("bases", [])]
    with pa.ipc.open_stream(folder / f"{name}.arrow") as reader:
        lance.write_dataset(reader, folder / f"{name}.lance", initial_bases=bases or None, **options)
    table = lance.dataset(folder / f"{name}.lance").scanner(blob_handling="blobs_descriptions").to_table()
    with pa.ipc.new_stream(folder / f"{name}.out", table.schema) as out:
        out.write_table(table)


def look(path, handling):
    try:
        return lance.dataset(path).scanner(blob_handling=handling).to_table().to_pylist()
    except BaseException as e:
        if handling != "all_binary":
            raise
        return str(type(e))


def compare(folder):
    for path in sorted(folder.glob("*.ours")):
        answer = {"name": path.stem, "error": None}
        try:
            for key, handling in (("descriptors", "blobs_descriptions"), ("bytes", "all_binary")):
                seen = look(path, handling)
                answer[key] = seen == look(path.with_suffix(".lance"), handling)
                answer["read"] = isinstance(seen, list)
        except BaseException as e:
            answer["error"] = str(e) or type(e).__name__
        print(json.dumps(answer), flush=True)


def main(folder):
    for path in sorted(folder.glob("*.arrow")):
        error = None
        try:
            write(folder, path.stem, json.loads(path.with_suffix(".json").read_text()))
        except BaseException as e:  # the reference panics too
            error = str(e) or type(e).__name__
        print(json.dumps({"name": path.stem, "error": error}), flush=True)


(compare if sys.argv[2:] == ["read"] else main)(pathlib.Path(sys.argv[1]))
