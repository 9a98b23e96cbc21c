package encoding

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Both tables number what they are given in the order in which it comes, over
// several doublings.
func TestDistinctValuesAreNumberedAsTheyCome(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	words, seen := newWordTable(), map[uint64]int32{}
	var kept [][]byte
	texts := newByteTable(func(i int32) []byte { return kept[i] })
	for range 50_000 {
		word := rng.Uint64N(20_000) << (rng.IntN(2) * 40)
		want, known := seen[word]
		if !known {
			want = int32(len(seen))
			seen[word] = want
		}
		if got, isNew := words.find(word); got != want || isNew == known {
			t.Fatalf("word %d: number %d, new %v; want %d, %v", word, got, isNew, want, !known)
		}
		text := fmt.Append(nil, word)
		got, isNew := texts.find(text)
		if isNew {
			kept = append(kept, text)
		}
		if got != want || isNew == known {
			t.Fatalf("text %s: number %d, new %v; want %d, %v", text, got, isNew, want, !known)
		}
	}
}
