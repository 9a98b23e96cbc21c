package bss

import (
	"bytes"
	"testing"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, width := range []int{4, 8} {
		for _, n := range []int{0, 1, 2, 1000} {
			src := sample(n * width)
			got := AppendSplit([]byte{1}, src, width)
			if got[0] != 1 || !bytes.Equal(got[1:], split(src, width)) {
				t.Errorf("width %d, n %d: got %x", width, n, got)
			}
		}
	}
}
