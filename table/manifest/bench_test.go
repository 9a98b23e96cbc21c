package manifest

import (
	"fmt"
	"testing"
	"time"

	"github.com/flightblob/flightblob/schema"
)

// BenchmarkCommit is the work of one append to a table of many fragments,
// without I/O.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{100, 20_000} {
		b.Run(fmt.Sprintf("fragments=%d", n), func(b *testing.B) {
			w := &world{t: b}
			op := &Overwrite{Schema: tree(b, field(0, "a", "int64"), field(1, "st", "struct"), below(1, 2, "b", "string"))}
			for i := range n {
				op.Fragments = append(op.Fragments, rows(1000, lance(fmt.Sprintf("%050d.lance", i), 0, 2)))
			}
			m := w.do(op, ApplyOptions{})
			tx := &Transaction{UUID: "u", Op: &Append{[]Fragment{rows(1, lance("x.lance", []schema.FieldID{0, 2}...))}}}
			b.ReportAllocs()
			for b.Loop() {
				next, err := Apply(m, tx, ApplyOptions{Now: time.Unix(1, 0)})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := next.Encode(nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
