#!/usr/bin/env bash
# Measures bin/flightblob beside the peer on the same tables and writes run.md and run.json.
#
#   BENCH_DIR    tables and results (.out/bench)         BENCH_SCALE   factor on the number of rows (1)
#   BENCH_ROUNDS rounds (7)                              BENCH_OPTIONS more options for bench.py
#
# Ingest writes into the folder of the tables: have BENCH_DIR on a memory file system to leave the disk out.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "${PYTHON:-.venv/bin/python}")
dir=${BENCH_DIR:-.out/bench}
root=$dir/tables
mkdir -p "$dir"

"$python" bench/make_tables.py "$root" --scale "${BENCH_SCALE:-1}"

# started NAME LOG COMMAND…: the URI of a server that prints "… listening on URI" when it is ready.
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT
started() {
  local name=$1 log=$dir/$1.log
  shift
  "$@" >"$log" 2>"$dir/$name.err" &
  pids+=($!)
  for _ in $(seq 300); do
    if uri=$(grep -oE 'grpc://[^[:space:]]+' "$log"); then return; fi
    kill -0 "${pids[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  echo "$name did not start:" >&2
  cat "$dir/$name.err" >&2
  exit 1
}
started flightblob bin/flightblob serve --root "$root" --listen 127.0.0.1:0
ours=$uri
started peer "$python" bench/peer_flight_server.py "$root"
peer=$uri

# shellcheck disable=SC2086
"$python" bench/bench.py --root "$root" --server "flightblob=$ours" --server "peer=$peer" --rounds "${BENCH_ROUNDS:-7}" \
  --ingest-scale "${BENCH_SCALE:-1}" --json "$dir/run.json" --markdown "$dir/run.md" ${BENCH_OPTIONS:-}
if [[ -z ${BENCH_OPTIONS:-} ]]; then
  "$python" bench/file_sizes.py "$root" "$ours" | tee "$dir/sizes.md"
fi
echo "wrote $dir/run.md" >&2
