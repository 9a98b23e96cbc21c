package datafile_test

import (
	"testing"

	"github.com/flightblob/flightblob/datafile"
	"github.com/flightblob/flightblob/encoding"
)

// BenchmarkColumns reads whole columns and single rows of golden files, page
// indexes cached: decoding without any store's latency.
func BenchmarkColumns(b *testing.B) {
	for _, g := range goldens(b) {
		switch g.name {
		case "codecs_22", "nested_22", "sequences_23":
		default:
			continue
		}
		cache := datafile.NewCache(16 << 20)
		r, _, err := g.open(b.Context(), g.data, cache)
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range g.manifest.Schema.Fields {
			for name, rows := range map[string]encoding.Range{
				"all": {Start: 0, End: g.rows()},
				"one": {Start: g.rows() / 2, End: g.rows()/2 + 1},
			} {
				b.Run(g.name+"/"+f.Name+"/"+name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if _, err := g.column(b.Context(), r, f, []encoding.Range{rows}); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(rows.Len())*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
				})
			}
		}
	}
}
