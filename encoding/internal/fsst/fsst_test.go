package fsst

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/flightblob/flightblob/internal/fault"
)

func table(symbols ...string) []byte {
	out := make([]byte, TableSize)
	binary.LittleEndian.PutUint64(out, magic<<32|enabled|uint64(len(symbols)))
	for i, s := range symbols {
		copy(out[8+8*i:], s)
		out[8+8*len(symbols)+i] = byte(len(s))
	}
	return out
}

func parse(t testing.TB, b []byte) *Decoder {
	t.Helper()
	d, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAppendDecoded(t *testing.T) {
	t.Parallel()
	d := parse(t, table("http://w", "ww.", "a", "com"))
	for _, c := range []struct {
		codes []byte
		want  string
	}{
		{nil, ""},
		{[]byte{0, 1, 2, 255, '.', 3}, "http://www.a.com"},
		{[]byte{255, 255, 255, 0}, "\xff\x00"},
		{bytes.Repeat([]byte{0}, 1000), string(bytes.Repeat([]byte("http://w"), 1000))},
		{bytes.Repeat([]byte{255, 'x', 2}, 1000), string(bytes.Repeat([]byte("xa"), 1000))},
	} {
		for _, spare := range []int{0, 1, 7, 8, 9, 100, 10_000} {
			dst := append(make([]byte, 0, 4+spare), "head"...)
			got, err := d.AppendDecoded(dst, c.codes)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != "head"+c.want {
				t.Errorf("spare %d: got %q, want %q", spare, got, c.want)
			}
			if n := len(got) - 4; n > d.MaxDecoded(len(c.codes)) {
				t.Errorf("%d codes gave %d bytes", len(c.codes), n)
			}
		}
	}
}

func TestFullTable(t *testing.T) {
	t.Parallel()
	symbols := make([]string, 255)
	var codes, want []byte
	for i := range symbols {
		symbols[i] = string(bytes.Repeat([]byte{byte(i)}, 1+i%8))
		codes = append(codes, byte(i))
		want = append(want, symbols[i]...)
	}
	got, err := parse(t, table(symbols...)).AppendDecoded(nil, codes)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v, want %x", got, err, want)
	}
}

func TestDisabledTableCopies(t *testing.T) {
	t.Parallel()
	b := table("abc")
	binary.LittleEndian.PutUint64(b, magic<<32|1)
	d := parse(t, b)
	got, err := d.AppendDecoded([]byte("x"), []byte{0, 255})
	if err != nil || string(got) != "x\x00\xff" || d.MaxDecoded(2) != 2 {
		t.Errorf("got %q, %v, max %d", got, err, d.MaxDecoded(2))
	}
}

func TestDamageIsReported(t *testing.T) {
	t.Parallel()
	zero, wide := table("abc", "d"), table("abc", "d")
	zero[8+16] = 0
	wide[8+17] = 9
	for name, b := range map[string][]byte{
		"short table": table()[:2311], "no magic": make([]byte, TableSize), "length 0": zero, "length 9": wide,
	} {
		if _, err := Parse(b); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: got %v", name, err)
		}
	}
	d := parse(t, table("abc"))
	for name, codes := range map[string][]byte{"no symbol": {0, 1}, "cut escape": {0, 255}} {
		if _, err := d.AppendDecoded(nil, codes); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzAppendDecoded(f *testing.F) {
	f.Add(table("http://w", "ww.", "a")[:64], []byte{0, 1, 2, 255, 3})
	f.Add(table(), []byte{255, 1})
	f.Fuzz(func(t *testing.T, head, codes []byte) {
		b := make([]byte, TableSize)
		copy(b, head)
		d, err := Parse(b)
		if err != nil {
			return
		}
		got, err := d.AppendDecoded(nil, codes)
		if err == nil && len(got) > d.MaxDecoded(len(codes)) {
			t.Errorf("%d codes gave %d bytes", len(codes), len(got))
		}
	})
}

func BenchmarkAppendDecoded(b *testing.B) {
	d := parse(b, table("http://w", "ww.", "exampl", "e.com/", "x"))
	codes := bytes.Repeat([]byte{0, 1, 2, 3, 4, 255, '?'}, 1000)
	dst := make([]byte, 0, d.MaxDecoded(len(codes)))
	out, _ := d.AppendDecoded(dst, codes)
	b.SetBytes(int64(len(out)))
	for b.Loop() {
		if _, err := d.AppendDecoded(dst[:0], codes); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAppendValues: many values at once decode as one by one.
func TestAppendValues(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string][]byte{"symbols": table("a", "bc", "defghijk"), "plain": make([]byte, TableSize)} {
		if name == "plain" {
			binary.LittleEndian.PutUint64(raw, uint64(magic)<<32)
		}
		d := parse(t, raw)
		src := []byte{9, 0, 1, 2, 255, 'x', 2, 2, 1, 0, 255, 255}
		offs := []int64{1, 4, 4, 6, 12}
		ends := make([]int32, 4)
		got, err := AppendValues(d, []byte("pre"), src, offs, ends)
		if err != nil {
			t.Fatal(err)
		}
		want := []byte("pre")
		for i := range ends {
			if want, err = d.AppendDecoded(want, src[offs[i]:offs[i+1]]); err != nil {
				t.Fatal(err)
			}
			if int(ends[i]) != len(want) {
				t.Errorf("%s: value %d ends at %d, want %d", name, i, ends[i], len(want))
			}
		}
		if string(got) != string(want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	d := parse(t, table("a"))
	for _, bad := range [][]byte{{7}, {0, 255}} {
		if _, err := AppendValues(d, nil, bad, []int64{0, int64(len(bad))}, make([]int64, 1)); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
