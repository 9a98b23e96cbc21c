package compress

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/flightblob/flightblob/internal/fault"
)

func packLZ4(t testing.TB, content []byte) []byte {
	t.Helper()
	block := make([]byte, lz4.CompressBlockBound(len(content)))
	var c lz4.Compressor
	n, err := c.CompressBlock(content, block)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(content))), block[:n]...)
}

func frame(t testing.TB, content []byte, single bool) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithSingleSegment(single))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.EncodeAll(content, nil)
}

func packZstd(t testing.TB, content []byte) []byte {
	t.Helper()
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(content))), frame(t, content, true)...)
}

// streamed is a frame that does not know its content size.
func streamed(t testing.TB, content []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	e, err := zstd.NewWriter(&buf)
	if err != nil {
		t.Fatal(err)
	}
	// Two writes with a flush between keep the encoder from noting the size.
	for _, part := range [][]byte{content[:len(content)/2], content[len(content)/2:]} {
		if _, err := e.Write(part); err != nil {
			t.Fatal(err)
		}
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func contents() map[string][]byte {
	mixed := make([]byte, 300_000)
	for i := range mixed {
		mixed[i] = byte(i * i >> 7)
	}
	return map[string][]byte{
		"one": {7}, "text": []byte("the quick brown fox"), "zeros": make([]byte, 1<<20), "mixed": mixed,
	}
}

func TestDecompress(t *testing.T) {
	t.Parallel()
	for name, want := range contents() {
		for scheme, src := range map[Scheme][]byte{LZ4: packLZ4(t, want), Zstd: packZstd(t, want)} {
			got, err := Decompress(scheme, src, len(want))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, scheme %d: %d bytes, %v", name, scheme, len(got), err)
			}
			if _, err := Decompress(scheme, src, len(want)-1); fault.KindOf(err) != fault.Exhausted {
				t.Errorf("%s, scheme %d, tight limit: %v", name, scheme, err)
			}
		}
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scheme Scheme
		src    []byte
	}{
		"zstd, no bytes":   {Zstd, nil},
		"zstd, size 0":     {Zstd, packZstd(t, nil)},
		"lz4, size 0":      {LZ4, []byte{0, 0, 0, 0, 0}},
		"lz4, size 0 only": {LZ4, []byte{0, 0, 0, 0}},
	} {
		if got, err := Decompress(c.scheme, c.src, 0); err != nil || len(got) != 0 {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
}

// TestReference decodes bytes made by the C libraries through pyarrow.
func TestReference(t *testing.T) {
	t.Parallel()
	const want = "flightblob flightblob flightblob"
	for _, c := range []struct {
		name   string
		scheme Scheme
		src    string
	}{
		{"lz4", LZ4, "20000000bc666c69676874626c6f62200b005074626c6f62"},
		{"zstd", Zstd, "200000000000000028b52ffd20208d000058666c69676874626c6f62200100fe8a17"},
		{"bare zstd", Zstd, "28b52ffd00488d000058666c69676874626c6f62200100fe8a17"},
	} {
		src, err := hex.DecodeString(c.src)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decompress(c.scheme, src, 1000); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestBareFrames(t *testing.T) {
	t.Parallel()
	for name, want := range contents() {
		for kind, src := range map[string][]byte{
			"sized": frame(t, want, true), "window": frame(t, want, false), "streamed": streamed(t, want),
		} {
			if kind == "streamed" {
				var h zstd.Header
				if err := h.Decode(src); err != nil || h.HasFCS {
					t.Fatalf("%s: the streamed frame knows its size (%v)", name, err)
				}
			}
			got, err := Decompress(Zstd, src, len(want))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %s: %d bytes, %v", name, kind, len(got), err)
			}
			if _, err := Decompress(Zstd, src, len(want)-1); fault.KindOf(err) != fault.Exhausted {
				t.Errorf("%s, %s, tight limit: %v", name, kind, err)
			}
		}
	}
}

func TestDamageIsReported(t *testing.T) {
	t.Parallel()
	text := []byte("the quick brown fox, the quick brown fox")
	otherSize := func(b []byte, by int8) []byte {
		b = bytes.Clone(b)
		b[0] = byte(int8(b[0]) + by)
		return b
	}
	for _, c := range []struct {
		name   string
		scheme Scheme
		src    []byte
		kind   fault.Kind
	}{
		{"scheme", 3, text, fault.Unsupported},
		{"lz4, no size", LZ4, []byte{1, 2}, fault.Corrupt},
		{"lz4, cut", LZ4, packLZ4(t, text)[:20], fault.Corrupt},
		{"lz4, size above", LZ4, otherSize(packLZ4(t, text), 1), fault.Corrupt},
		{"lz4, size below", LZ4, otherSize(packLZ4(t, text), -1), fault.Corrupt},
		{"lz4, huge size", LZ4, []byte{255, 255, 255, 255, 0, 0}, fault.Corrupt},
		{"zstd, no size", Zstd, []byte{1, 2}, fault.Corrupt},
		{"zstd, cut", Zstd, packZstd(t, text)[:20], fault.Corrupt},
		{"zstd, size above", Zstd, otherSize(packZstd(t, text), 1), fault.Corrupt},
		{"zstd, size below", Zstd, otherSize(packZstd(t, text), -1), fault.Corrupt},
		{"zstd, huge size", Zstd, bytes.Repeat([]byte{255}, 20), fault.Exhausted},
		{"bare zstd, cut", Zstd, streamed(t, text)[:12], fault.Corrupt},
	} {
		if _, err := Decompress(c.scheme, c.src, 1000); err == nil || fault.KindOf(err) != c.kind {
			t.Errorf("%s: got %v, want a %v error", c.name, err, c.kind)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	want := contents()["mixed"]
	src := packZstd(t, want)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if got, err := Decompress(Zstd, src, len(want)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	wg.Wait()
}

func FuzzDecompress(f *testing.F) {
	text := []byte("the quick brown fox, the quick brown fox")
	f.Add(int32(LZ4), packLZ4(f, text))
	f.Add(int32(Zstd), packZstd(f, text))
	f.Add(int32(Zstd), frame(f, text, true))
	f.Add(int32(Zstd), streamed(f, text))
	f.Fuzz(func(t *testing.T, scheme int32, src []byte) {
		const limit = 1 << 16
		if got, err := Decompress(Scheme(scheme), src, limit); err == nil && len(got) > limit {
			t.Errorf("%d bytes", len(got))
		}
	})
}

func BenchmarkDecompress(b *testing.B) {
	want := contents()["mixed"]
	for scheme, src := range map[Scheme][]byte{LZ4: packLZ4(b, want), Zstd: packZstd(b, want)} {
		b.Run(fmt.Sprintf("scheme %d", scheme), func(b *testing.B) {
			b.SetBytes(int64(len(want)))
			for b.Loop() {
				if _, err := Decompress(scheme, src, len(want)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
