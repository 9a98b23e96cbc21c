package compress

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestCompressedReturns(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 100_000)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	text := []byte(strings.Repeat("the quick brown fox ", 4000))
	for _, src := range [][]byte{nil, {1}, noise[:14], noise[:15], noise[:16], noise[:269], noise[:270], noise[:271], noise, text, bytes.Repeat([]byte{7}, 1<<20)} {
		for _, scheme := range []Scheme{LZ4, Zstd} {
			for _, level := range []int{0, 1, 3, 9, 19} {
				got, err := Append([]byte{42}, scheme, level, src)
				if err != nil || got[0] != 42 {
					t.Fatal(err)
				}
				back, err := Decompress(scheme, got[1:], len(src))
				if err != nil || !bytes.Equal(back, src) {
					t.Fatalf("scheme %d, level %d, %d bytes: %v", scheme, level, len(src), err)
				}
				if len(got) > len(src)+len(src)/255+40 {
					t.Errorf("scheme %d: %d bytes became %d", scheme, len(src), len(got))
				}
			}
		}
	}
}

func TestUnknownScheme(t *testing.T) {
	t.Parallel()
	if _, err := Append(nil, 7, 0, nil); err == nil {
		t.Error("no error")
	}
}
