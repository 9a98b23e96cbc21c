package materialize

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/flightblob/flightblob/objstore"
)

// TestPlan prints read plans. A command is
//
//	plan [gap=N] [small=N] [maximum=N] [scattered=N]
//	LEAF OBJECT OFFSET LENGTH
//	…
//
// with values in order of their leaf's buffer.
func TestPlan(t *testing.T) {
	datadriven.RunTest(t, "testdata/plan", func(t *testing.T, d *datadriven.TestData) string {
		rules := remotePolicy
		d.MaybeScanArgs(t, "gap", &rules.gap)
		d.MaybeScanArgs(t, "small", &rules.small)
		d.MaybeScanArgs(t, "maximum", &rules.maximum)
		d.MaybeScanArgs(t, "scattered", &rules.scattered)
		store, objects := newFake(), newObjects()
		var pieces []piece
		var fields []string
		ends := make(map[string]int64)
		number := make(map[string]int)
		for row, line := range strings.Split(d.Input, "\n") {
			var leaf, object string
			var off, n int64
			if _, err := fmt.Sscan(line, &leaf, &object, &off, &n); err != nil {
				d.Fatalf(t, "%q: %v", line, err)
			}
			if _, ok := number[leaf]; !ok {
				number[leaf] = len(fields)
				fields = append(fields, leaf)
			}
			pieces = append(pieces, piece{
				object: objects.intern(store.at(object)), off: off, n: n,
				leaf: number[leaf], dst: ends[leaf], row: int64(row),
			})
			ends[leaf] += n
		}
		p := newPlan(objects, fields, pieces, func(objstore.Location) policy { return rules })
		return p.String()
	})
}

// TestPlanScratch checks the memory that a plan asks for beside its results.
func TestPlanScratch(t *testing.T) {
	t.Parallel()
	p := &plan{reads: []read{{n: 100}, {n: 5000}, {n: 1 << 20, direct: true}, {n: 300}}}
	if got, want := p.scratch(2), sizeClass(5000)+sizeClass(300); got != want {
		t.Errorf("two at a time: %d, want %d", got, want)
	}
	if got, want := p.scratch(8), sizeClass(5000)+sizeClass(300)+sizeClass(100); got != want {
		t.Errorf("all at once: %d, want %d", got, want)
	}
	if p.bytes() != 100+5000+1<<20+300 {
		t.Errorf("bytes() = %d", p.bytes())
	}
}
