package manifest

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/lancepb"
	"github.com/flightblob/flightblob/schema"
)

// conflicts is what the reference decided for every pair of some operations of
// its own on one version; testdata/conflicts.py made it.
type conflicts struct {
	names        []string
	transactions map[string]*Transaction
	rows         map[string]string // by the operation that came late
}

func readConflicts(t testing.TB) conflicts {
	t.Helper()
	c := conflicts{transactions: map[string]*Transaction{}, rows: map[string]string{}}
	for line := range strings.SplitSeq(string(read(t, "testdata/conflicts.txt")), "\n") {
		name, rest, ok := strings.Cut(line, " ")
		if !ok || name == "#" {
			continue
		}
		if _, second := c.transactions[name]; second {
			c.rows[name] = strings.TrimSpace(rest)
			continue
		}
		data, err := hex.DecodeString(rest)
		if err != nil {
			t.Fatal(err)
		}
		if c.transactions[name], err = DecodeTransaction(data); err != nil {
			t.Fatal(err)
		}
		c.names = append(c.names, name)
	}
	if len(c.names) < 30 || len(c.rows) != len(c.names) {
		t.Fatalf("%d transactions, %d rows", len(c.names), len(c.rows))
	}
	return c
}

// TestJudgeAsReference compares the verdicts on all pairs of real transactions
// with what the reference did. Where a row-level check decides, its calls did
// not know their rows and had to retry.
func TestJudgeAsReference(t *testing.T) {
	t.Parallel()
	c := readConflicts(t)
	for _, ours := range c.names {
		for i, theirs := range c.names {
			want := c.rows[ours][i]
			v := Judge(c.transactions[ours], c.transactions[theirs])
			got := map[Decision]byte{Rebase: '.', Retry: 'R', Incompatible: 'X'}[v.Decision]
			if len(v.Rows) > 0 && v.Decision == Rebase {
				got = 'R'
			}
			// An index over columns that were rewritten in place is narrowed by
			// the reference; here it is made anew.
			_, index := c.transactions[ours].Op.(*CreateIndex)
			if index && want == '.' && (strings.HasPrefix(theirs, "merge") || theirs == "update-v-0") {
				want = got
			}
			if got != want {
				t.Errorf("%s over %s: %c (%s), the reference says %c", ours, theirs, got, v.Reason, want)
			}
			if (v.Reason == "") != (v.Decision == Rebase) {
				t.Errorf("%s over %s: %v because of %q", ours, theirs, v.Decision, v.Reason)
			}
		}
	}
}

// TestJudgeReasons shows what losers are told.
func TestJudgeReasons(t *testing.T) {
	t.Parallel()
	c := readConflicts(t)
	entry := func(name string, bitmap []byte) []byte {
		data, err := proto.Marshal(&lancepb.IndexMetadata{Uuid: []byte(name), Name: name, Fields: []int32{1}, FragmentBitmap: bitmap})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	more := map[string]Operation{
		"reserve":            &ReserveFragments{1},
		"base-a":             &UpdateBases{[]Base{{Name: "a", Path: "/a"}}},
		"base-b":             &UpdateBases{[]Base{{Name: "b", Path: "/b"}}},
		"base-a-elsewhere":   &UpdateBases{[]Base{{Name: "a", Path: "/c"}}},
		"base-elsewhere-a":   &UpdateBases{[]Base{{Path: "/a"}}},
		"base-5":             &UpdateBases{[]Base{{ID: 5, Path: "/5"}}},
		"base-5-again":       &UpdateBases{[]Base{{ID: 5, Path: "/6"}}},
		"clone":              &Clone{},
		"wal":                &UpdateMemWalState{},
		"overlay":            &DataOverlay{},
		"newer":              &Unknown{Number: 150},
		"insert-keys-12":     &Update{Inserted: &KeyFilter{Exact: []uint64{1, 2}}},
		"insert-keys-23":     &Update{Inserted: &KeyFilter{Exact: []uint64{2, 3}}},
		"insert-keys-4":      &Update{Inserted: &KeyFilter{Exact: []uint64{4}}},
		"insert-other-keys":  &Update{Inserted: &KeyFilter{Fields: []schema.FieldID{7}, Exact: []uint64{9}}},
		"insert-bloom-f0":    &Update{Inserted: &KeyFilter{Bloom: &Bloom{Bitmap: []byte{0xF0}}}},
		"insert-bloom-0f":    &Update{Inserted: &KeyFilter{Bloom: &Bloom{Bitmap: []byte{0x0F}}}},
		"insert-bloom-ff":    &Update{Inserted: &KeyFilter{Bloom: &Bloom{Bitmap: []byte{0xFF}}}},
		"insert-bloom-large": &Update{Inserted: &KeyFilter{Bloom: &Bloom{Bitmap: []byte{0, 0}}}},
		"insert-unchecked":   &Update{New: []Fragment{{}}},
		"index-unknown":      &CreateIndex{New: [][]byte{entry("u", nil)}},
		"index-broken":       &CreateIndex{New: [][]byte{{0xFF}}},
		"index-damaged":      &CreateIndex{New: [][]byte{entry("u", []byte("junk"))}},
		"index-system":       &CreateIndex{New: [][]byte{entry("__lance_mem_wal", bitmapOf(nil))}},
		"overwrite-config-a": &Overwrite{ConfigUpserts: map[string]string{"a": "1"}},
		"overwrite-config-b": &Overwrite{ConfigUpserts: map[string]string{"b": "1"}},
	}
	for name, op := range more {
		c.transactions[name] = &Transaction{Op: op}
	}
	datadriven.RunTest(t, "testdata/judge.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for line := range strings.SplitSeq(strings.TrimSpace(d.Input), "\n") {
			ours, theirs, _ := strings.Cut(line, " over ")
			a, b := c.transactions[ours], c.transactions[theirs]
			if a == nil || b == nil {
				d.Fatalf(t, "%q names no operations", line)
			}
			switch v := Judge(a, b); {
			case len(v.Rows) > 0:
				fmt.Fprintf(&out, "%s: %v, if the rows of fragments %v differ\n", line, v.Decision, v.Rows)
			case v.Decision == Rebase:
				fmt.Fprintf(&out, "%s: %v\n", line, v.Decision)
			default:
				fmt.Fprintf(&out, "%s: %v. %s\n", line, v.Decision, v.Reason)
			}
		}
		return out.String()
	})
}

// TestMatrix holds the shape of the table: a row for each operation that a
// committer can have, a column for each that can be in its way, and no word
// without a meaning.
func TestMatrix(t *testing.T) {
	t.Parallel()
	rows := map[Kind]int{}
	words := map[string]bool{}
	for at, cell := range cells {
		rows[at[0]]++
		for _, word := range cell {
			if conditions[word] == nil {
				t.Errorf("%v over %v: no condition %q", at[0], at[1], word)
			}
			words[word] = true
		}
	}
	for kind := KindAppend; kind < kindEnd; kind++ {
		if slices.Contains([]Kind{KindClone, KindUpdateMemWalState, KindDataOverlay}, kind) {
			continue
		}
		if rows[kind] != len(columns) {
			t.Errorf("the row of %v has %d cells, not %d", kind, rows[kind], len(columns))
		}
	}
	for word := range conditions {
		if !words[word] {
			t.Errorf("no cell has the condition %q", word)
		}
	}
	for _, op := range everyOperation(t) {
		tx := &Transaction{Op: op}
		newer := &Transaction{Op: &Unknown{Number: 199}}
		if v := Judge(tx, newer); op.Kind() != KindClone && v.Decision != Incompatible {
			t.Errorf("%T over an operation of a newer writer: %v", op, v)
		}
		if v := Judge(newer, tx); v.Decision != Incompatible {
			t.Errorf("an operation of a newer writer over %T: %v", op, v)
		}
	}
}

func TestTrial(t *testing.T) {
	t.Parallel()
	a, b := field(0, "a", "int64"), field(1, "b", "string")
	append01 := &Transaction{Op: &Append{[]Fragment{rows(1, lance("x", 0, 1, Tombstone))}}}
	dropB := &Transaction{Op: &Project{tree(t, a), true}}
	addC := &Transaction{Op: &Merge{Schema: tree(t, a, field(1, "c", "int8")), PreservesNullability: true}}
	rename := &Transaction{Op: &Project{tree(t, a, field(1, "renamed", "string")), true}}
	for name, test := range map[string]struct {
		ours   *Transaction
		theirs []*Transaction
		want   Decision
	}{
		"a column renamed":                         {append01, []*Transaction{rename, rename}, Rebase},
		"a column dropped":                         {append01, []*Transaction{rename, dropB, dropB}, Rebase},
		"an id used again":                         {append01, []*Transaction{dropB, addC}, Retry},
		"an id used again, by an update":           {&Transaction{Op: &Update{New: []Fragment{rows(1, lance("x", 1))}}}, []*Transaction{dropB, rename}, Retry},
		"an id used again that ours does not have": {&Transaction{Op: &Append{[]Fragment{rows(1, lance("x", 0))}}}, []*Transaction{dropB, addC}, Rebase},
		"what Judge says comes first":              {&Transaction{Op: &Merge{Schema: tree(t, a, b)}}, []*Transaction{dropB}, Incompatible},
	} {
		trial := NewTrial(test.ours)
		v := Verdict{}
		for _, theirs := range test.theirs {
			v = trial.Hear(theirs)
		}
		if v.Decision != test.want || (v.Reason == "") != (v.Decision == Rebase) {
			t.Errorf("%s: %v, %s", name, v.Decision, v.Reason)
		}
	}
}
