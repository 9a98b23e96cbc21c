"""Writes blob tables with pylance and shows what it stored, for the tests of this package.

    python reference.py FOLDER

For each NAME.arrow in FOLDER, an Arrow stream, one line of JSON on stdout: {"name", "error"} with the error null when
pylance took it. NAME.json beside it gives the arguments of lance.write_dataset, with "bases" as lists of the arguments
of lance.DatasetBasePath. NAME.lance is the table then, and NAME.out its descriptors as an Arrow stream.
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


def main(folder):
    for path in sorted(folder.glob("*.arrow")):
        error = None
        try:
            write(folder, path.stem, json.loads(path.with_suffix(".json").read_text()))
        except BaseException as e:  # the reference panics too
            error = str(e) or type(e).__name__
        print(json.dumps({"name": path.stem, "error": error}), flush=True)


main(pathlib.Path(sys.argv[1]))
