"""Writes tables with pylance for the tests of this package.

    python reference.py FOLDER

For each NAME.arrow in FOLDER, an Arrow stream, one line of JSON on stdout: {"name", "error"} with the error null when
pylance took it. NAME.json beside it gives the arguments of lance.write_dataset; NAME.lance is the table, if "uri" there
does not name another. They are written in order of their names.
"""

import json
import pathlib
import sys
import warnings

import lance
import pyarrow as pa

warnings.filterwarnings("ignore")


def main(folder):
    for path in sorted(folder.glob("*.arrow")):
        name, error = path.stem, None
        options = json.loads(path.with_suffix(".json").read_text())
        try:
            with pa.ipc.open_stream(path) as reader:
                lance.write_dataset(reader, folder / options.pop("uri", f"{name}.lance"), **options)
        except BaseException as e:  # the reference panics too
            error = str(e) or type(e).__name__
        print(json.dumps({"name": name, "error": error}), flush=True)


main(pathlib.Path(sys.argv[1]))
