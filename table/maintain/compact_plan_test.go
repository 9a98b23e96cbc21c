package maintain_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/table/maintain"
	"github.com/flightblob/flightblob/table/tabletest"
)

// TestCompactPlansAsReference lets the reference plan the compaction of random
// tables, with options that are given and options of the table's configuration.
func TestCompactPlansAsReference(t *testing.T) {
	t.Parallel()
	session := tabletest.StartSession(t)
	session.Run(nil, `
import lance, pyarrow as pa, random
from lance.optimize import Compaction
def make(path, seed):
    r = random.Random(seed)
    n = 0
    for i in range(r.randint(1, 14)):
        k = r.choice([1, 5, 40, 100, 199, 200, 201, 400])
        rows = pa.table({"id": pa.array(range(n, n + k)), "b": pa.array([str(x) for x in range(n, n + k)])})
        n += k
        ds = lance.write_dataset(rows, path, mode="append" if i else "create", max_rows_per_file=250, enable_stable_row_ids=seed % 2 == 0)
        if r.random() < 0.1:
            ds.create_scalar_index("id", "BTREE")
        if r.random() < 0.1:
            ds.create_scalar_index("b", "BITMAP")
    share = r.choice([0, 2, 10, 20, 50])
    ds.delete(f"id % 100 < {share} and id % 7 <> 0")
    ds.delete("id between 300 and 480")
    if seed % 3 == 0:
        ds.update_config({"lance.compaction." + k: v for k, v in {
            "target_rows_per_fragment": "300", "materialize_deletions": r.choice(["true", "false"]), "materialize_deletions_threshold": "0.25",
            "max_source_rows": "900"}.items()})
def planned(path, **options):
    return [[f.id for f in task.fragments] for task in Compaction.plan(lance.dataset(path), options).tasks]
`)
	dir := t.TempDir()
	planned := 0
	for seed := range 40 {
		path := filepath.Join(dir, fmt.Sprintf("t%d.lance", seed))
		session.Run(nil, fmt.Sprintf("make(%q, %d)", path, seed))
		tab := tabletest.Open(t, tabletest.Env(t, path), path)
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		for range 4 {
			var o maintain.CompactOptions
			options := ""
			if r.IntN(2) == 0 {
				n := []uint64{1, 100, 200, 201, 500, 5000}[r.IntN(6)]
				o.TargetRows = &n
				options += fmt.Sprintf(", target_rows_per_fragment=%d", n)
			}
			if r.IntN(2) == 0 {
				share := []float64{0, 0.02, 0.1, 0.5}[r.IntN(4)]
				o.DeletionsAbove = &share
				options += fmt.Sprintf(", materialize_deletions_threshold=%v", share)
			}
			if r.IntN(4) == 0 {
				no := false
				o.Deletions = &no
				options += ", materialize_deletions=False"
			}
			if r.IntN(4) == 0 {
				n := uint64(1 + r.IntN(8))
				o.MostFragments = &n
				options += fmt.Sprintf(", max_source_fragments=%d", n)
			}
			if r.IntN(4) == 0 {
				n := uint64(r.IntN(1000))
				o.MostRows = &n
				options += fmt.Sprintf(", max_source_rows=%d", n)
			}
			var want [][]uint64
			session.Run(&want, fmt.Sprintf("planned(%q%s)", path, options))
			plan, err := maintain.PlanCompact(t.Context(), tab, o)
			if err != nil {
				t.Fatal(err)
			}
			got := [][]uint64{}
			for _, task := range plan.Tasks {
				var ids []uint64
				for i := range task.Fragments {
					ids = append(ids, task.Fragments[i].ID)
				}
				got = append(got, ids)
			}
			planned += len(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("seed %d%s (-want +got):\n%s", seed, options, diff)
			}
		}
	}
	if planned < 50 {
		t.Errorf("only %d tasks", planned)
	}
}
