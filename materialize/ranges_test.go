package materialize

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/internal/fault"
)

func (w *world) ranges(o Options, requests ...RangeRequest) ([]string, error) {
	w.tb.Helper()
	for i := range requests {
		requests[i].Owner = w.owner
		requests[i].Field, requests[i].Row = "s.img", int64(100+i)
	}
	o = w.options(o)
	r, err := Ranges(w.tb.Context(), requests, w.blobs, o)
	if err != nil {
		return nil, err
	}
	lines, err := drain(w.tb, r)
	if s := o.Budget.Stats(); s.InUse != 0 {
		w.tb.Errorf("the budget is left with %+v", s)
	}
	return lines, err
}

func answers(values ...string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = `{"request":` + string(rune('0'+i)) + `,"bytes":` + v + `}`
	}
	return "[" + strings.Join(out, ",") + "]"
}

func TestRanges(t *testing.T) {
	t.Parallel()
	value := blob.Descriptor{Kind: blob.Inline, Position: 2, Size: 10} // c…l
	whole := blob.Descriptor{Kind: blob.External, URI: "ext:///o"}     // 0123
	behind := blob.Descriptor{Kind: blob.External, Position: 1, URI: "ext:///o"}
	for _, c := range []struct {
		name     string
		requests []RangeRequest
		want     string
		reads    string
	}{
		{"RES-14 inner, whole and empty ranges in request order", []RangeRequest{
			{Value: value, Offset: 8, Length: 2}, {Value: value, Length: 10}, {Value: value, Offset: 3}, {Value: value, Offset: 10}, {Value: value, Offset: 1, Length: 1},
		}, answers(b64("kl"), b64("cdefghijkl"), b64(""), b64(""), b64("d")), "data/f.lance [2, 12)"},
		{"REJ-11 a null value gives null, bounds unchecked", []RangeRequest{
			{Null: true, Offset: 1 << 60, Length: 5}, {Value: value, Length: 1},
		}, answers("null", b64("c")), "data/f.lance [2, 3)"},
		{"NUL-9 ranges of a whole object count from its position", []RangeRequest{
			{Value: whole, Offset: 1, Length: 3}, {Value: behind, Offset: 0, Length: 3}, {Value: behind, Offset: 2, Length: 1},
		}, answers(b64("123"), b64("123"), b64("3")), "o [1, 4)"},
		{"MAT-3 an empty value has an empty range", []RangeRequest{
			{Value: blob.Descriptor{}}, {Value: blob.Descriptor{Kind: blob.Managed, Position: 9, URI: "gone"}},
		}, answers(b64(""), b64("")), ""},
		{"no requests", nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.store.objects["data/f.lance"], w.store.objects["o"] = []byte(letters), []byte("0123")
			got, err := w.ranges(Options{}, c.requests...)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				c.want, got = "[]", append(got, "[]")
			}
			if diff := cmp.Diff(normal(t, c.want), normal(t, joined(got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if log := w.store.log(); log != c.reads {
				t.Errorf("read %s, want %s", log, c.reads)
			}
		})
	}
	for _, c := range []struct {
		name string
		q    RangeRequest
		kind fault.Kind
		text string
	}{
		{"REJ-11 beyond the value", RangeRequest{Value: value, Offset: 5, Length: 6}, fault.Invalid, "size of 10 bytes"},
		{"REJ-11 empty range beyond the value", RangeRequest{Value: value, Offset: 11}, fault.Invalid, "size of 10 bytes"},
		{"REJ-11 overflow", RangeRequest{Value: value, Offset: math.MaxUint64, Length: 1}, fault.Invalid, "2^64-1"},
		{"REJ-11 overflow on a null value", RangeRequest{Null: true, Offset: math.MaxUint64, Length: 1}, fault.Invalid, "2^64-1"},
		{"NUL-9 beyond the object's length", RangeRequest{Value: whole, Offset: 4, Length: 1}, fault.Invalid, "size of 4 bytes"},
		{"NUL-9 RES-14 behind the object's end", RangeRequest{Value: behind, Offset: 1, Length: 3}, fault.Corrupt, "holds 4 bytes"},
		{"REJ-6 missing object", RangeRequest{Value: blob.Descriptor{Kind: blob.Managed, Size: 9, URI: "gone"}, Length: 1}, fault.Corrupt, "missing"},
		{"REJ-6 missing external object", RangeRequest{Value: blob.Descriptor{Kind: blob.External, URI: "ext:///gone"}, Length: 1}, fault.NotFound, "gone"},
		{"REJ-2 unknown kind", RangeRequest{Value: blob.Descriptor{Kind: 9, Size: 1}}, fault.Corrupt, "kind 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.store.objects["data/f.lance"], w.store.objects["o"] = []byte(letters), []byte("0123")
			_, err := w.ranges(Options{}, RangeRequest{Value: value, Length: 1}, c.q)
			var failed *ValueError
			if !errors.As(err, &failed) || failed.Field != "s.img" || failed.Row != 101 {
				t.Fatalf("error %v does not name field and row", err)
			}
			if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v: error %v", fault.KindOf(err), err)
			}
		})
	}
	t.Run("cut by bytes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.store.objects["data/f.lance"] = large(100000)
		var q []RangeRequest
		for range 10 {
			q = append(q, RangeRequest{Value: blob.Descriptor{Size: 100000}, Offset: 5, Length: 30000})
		}
		got, err := w.ranges(Options{BatchBytes: 70000}, q...)
		if err != nil || len(got) != 5 {
			t.Errorf("%d batches, %v", len(got), err)
		}
		var big *TooLargeError
		if _, err = w.ranges(Options{MaxValue: 20000}, q...); !errors.As(err, &big) || big.Field != "s.img" || big.Row != 100 {
			t.Errorf("error %v", err)
		}
	})
}
