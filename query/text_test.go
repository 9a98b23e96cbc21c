package query

import (
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestCheckText compares the check of whole arrays with a check of each value,
// over arrays that are cut anywhere.
func TestCheckText(t *testing.T) {
	t.Parallel()
	pieces := []string{"", "a", "plain text that is long enough for words", "é", "日本語", "\xff", "\xe6", "\x97\xa5", "x\xf0\x9f"}
	rng := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for round := range 4000 {
		var b array.StringLikeBuilder = array.NewStringBuilder(memory.DefaultAllocator)
		if round%2 == 0 {
			b = array.NewLargeStringBuilder(memory.DefaultAllocator)
		}
		kinds := 5 + rng.IntN(len(pieces)-4)
		for range rng.IntN(12) {
			b.Append(pieces[rng.IntN(kinds)])
			if rng.IntN(4) == 0 {
				b.Append(pieces[rng.IntN(len(pieces))])
				b.SetNull(b.Len() - 1) // the bytes stay
			}
		}
		whole := b.NewArray()
		from := rng.IntN(whole.Len() + 1)
		a := array.NewSlice(whole, int64(from), int64(from+rng.IntN(whole.Len()-from+1))).(array.StringLike)
		want := true
		for i := range a.Len() {
			want = want && (a.IsNull(i) || utf8.ValidString(a.Value(i)))
		}
		if got := checkText("c", a.Data()) == nil; got != want {
			t.Fatalf("%v: %t, want %t", a, got, want)
		}
		if !want {
			refused++
		}
	}
	if refused < 100 {
		t.Errorf("only %d arrays were refused", refused)
	}
	if err := checkText("c", array.MakeArrayOfNull(memory.DefaultAllocator, arrow.BinaryTypes.String, 3).Data()); err != nil {
		t.Error(err)
	}
}
