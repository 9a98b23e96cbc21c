package fsst

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// corpora are kinds of strings that tables hold.
func corpora() map[string][][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one you were all her she there would their we him been has when who will no more if out so up said what its about than into them can only other time new some could these two may first then do any like my now over such our man me even most made after also did many off before must well back through years much where your way down should because long each just state those people too mr how little good world make very year still see own work men day get here between life being under three never know same last another while us might great go come since against right came take used himself few house use place american around home small found thought went say part once general high upon school every don does got united left number course war until always away something fact though water less public put think almost hand enough far took head yet government system better set told nothing night end why called didn eyes find going look asked later knew")
	out := map[string][][]byte{}
	add := func(kind string, v string) { out[kind] = append(out[kind], []byte(v)) }
	for i := range 4000 {
		var b strings.Builder
		for range 3 + rng.IntN(10) {
			b.WriteString(words[rng.IntN(len(words))])
			b.WriteByte(' ')
		}
		add("words", b.String())
		add("urls", fmt.Sprintf("https://example.com/%s/%s?id=%d", words[rng.IntN(len(words))], words[rng.IntN(len(words))], rng.IntN(1e6)))
		add("hex", fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64()))
		add("numbers", fmt.Sprint(rng.IntN(1e9)))
		noise := make([]byte, rng.IntN(40))
		for k := range noise {
			noise[k] = byte(rng.Uint32())
		}
		out["noise"] = append(out["noise"], noise)
		add("same", "status-ok")
		add("sequence", fmt.Sprintf("item_%08d", i))
	}
	return out
}

func sampleOf(values [][]byte) [][]byte {
	var out [][]byte
	for i := 0; i < len(values); i += 8 {
		out = append(out, values[i])
	}
	return out
}

func TestEncodedReturns(t *testing.T) {
	t.Parallel()
	// What the codes take at most, per kind: well below 1 where there is
	// something to find.
	most := map[string]float64{"words": 0.55, "urls": 0.45, "hex": 0.6, "numbers": 0.6, "noise": 1.9, "same": 0.25, "sequence": 0.5}
	for kind, values := range corpora() {
		e := Train(sampleOf(values))
		d, err := Parse(e.Table())
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		plain, coded := 0, 0
		for _, v := range values {
			c := e.AppendEncoded(nil, v)
			back, err := d.AppendDecoded(nil, c)
			if err != nil || !bytes.Equal(back, v) {
				t.Fatalf("%s: %q became %q: %v", kind, v, back, err)
			}
			plain += len(v)
			coded += len(c)
		}
		ratio := float64(coded) / float64(plain)
		t.Logf("%s: %.3f", kind, ratio)
		if ratio > most[kind] {
			t.Errorf("%s: codes take %.3f of the bytes, at most %.2f expected", kind, ratio, most[kind])
		}
	}
}

func TestTrainIsRepeatable(t *testing.T) {
	t.Parallel()
	sample := sampleOf(corpora()["words"])
	if !bytes.Equal(Train(sample).Table(), Train(sample).Table()) {
		t.Error("two tables from one sample")
	}
}

func TestTrainOnNothing(t *testing.T) {
	t.Parallel()
	e := Train(nil)
	d, err := Parse(e.Table())
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.AppendDecoded(nil, e.AppendEncoded(nil, []byte("abc")))
	if err != nil || string(got) != "abc" {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzTrain(f *testing.F) {
	f.Add([]byte("hello hello hello"), []byte("hell no"))
	f.Add([]byte{0, 0, 0, 0, 255, 255}, []byte{255, 0})
	f.Fuzz(func(t *testing.T, sample, value []byte) {
		e := Train([][]byte{sample, value})
		d, err := Parse(e.Table())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range [][]byte{sample, value, append(append([]byte{}, value...), sample...)} {
			back, err := d.AppendDecoded(nil, e.AppendEncoded(nil, v))
			if err != nil || !bytes.Equal(back, v) {
				t.Fatalf("%q became %q: %v", v, back, err)
			}
		}
	})
}

func BenchmarkTrain(b *testing.B) {
	sample := sampleOf(corpora()["words"])
	for b.Loop() {
		Train(sample)
	}
}

func BenchmarkEncode(b *testing.B) {
	for kind, values := range corpora() {
		b.Run(kind, func(b *testing.B) {
			e := Train(sampleOf(values))
			size := 0
			for _, v := range values {
				size += len(v)
			}
			b.SetBytes(int64(size))
			var dst []byte
			for b.Loop() {
				dst = dst[:0]
				for _, v := range values {
					dst = e.AppendEncoded(dst, v)
				}
			}
		})
	}
}
