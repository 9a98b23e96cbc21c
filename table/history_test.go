package table_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/tabletest"
)

// pictureTable makes a table of twenty pictures on disk, and a second version
// with five more.
func pictureTable(t *testing.T) *table.Table {
	t.Helper()
	env, root := environment(t, t.TempDir())
	tbl := table.New(env, root, "t")
	a, err := tbl.Create(t.Context(), pictures, table.CreateOptions{})
	if err := wrote(t.Context(), t, a, err, pictureRows(t, 0, 20)); err != nil {
		t.Fatal(err)
	}
	addPictures(t, tbl, "", 20, 5)
	return tbl
}

func addPictures(t *testing.T, tbl *table.Table, branch string, from, n int) {
	t.Helper()
	a, err := tbl.Append(t.Context(), branch, pictures, table.WriteOptions{})
	if err := wrote(t.Context(), t, a, err, pictureRows(t, from, n)); err != nil {
		t.Fatal(err)
	}
}

// refused fails unless err is of the kind and says all of words.
func refused(t *testing.T, err error, kind fault.Kind, words ...string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		t.Errorf("got %v, want a %s error", err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tbl := pictureTable(t)
	tag, err := tbl.CreateTag(ctx, "first", table.Ref{Version: 1}, table.TagOptions{Metadata: map[string]string{"why": "a <test>"}})
	if err != nil || tag.Version != 1 || tag.CreatedAt.IsZero() {
		t.Fatalf("%+v, %v", tag, err)
	}
	if s := tabletest.At(t, tbl, table.Ref{Tag: "first"}); s.Version() != 1 {
		t.Errorf("the tag leads to version %d", s.Version())
	}
	_, err = tbl.CreateTag(ctx, "first", table.Ref{}, table.TagOptions{})
	refused(t, err, fault.Exists, `"first"`, "replace")
	moved, err := tbl.CreateTag(ctx, "first", table.Ref{}, table.TagOptions{Replace: true})
	if err != nil || moved.Version != 2 || !moved.CreatedAt.Equal(tag.CreatedAt) || !moved.UpdatedAt.After(tag.UpdatedAt) || moved.Metadata["why"] != "a <test>" {
		t.Errorf("moved: %+v, %v", moved, err)
	}
	read, err := tbl.Tags(ctx)
	if err != nil || len(read) != 1 || !read[0].UpdatedAt.Equal(moved.UpdatedAt) || read[0].Version != 2 {
		t.Errorf("%+v, %v", read, err)
	}
	_, err = tbl.CreateTag(ctx, "x", table.Ref{Version: 9}, table.TagOptions{})
	refused(t, err, fault.NotFound, "version 9")
	_, err = tbl.CreateTag(ctx, "a/b", table.Ref{}, table.TagOptions{})
	refused(t, err, fault.Invalid, "a/b")
	_, err = tbl.CreateTag(ctx, "flightblob-lease-1", table.Ref{}, table.TagOptions{})
	refused(t, err, fault.Invalid, "leases")
	_, err = tbl.DeleteTag(ctx, "x")
	refused(t, err, fault.NotFound, `"x"`, "first")
	if gone, err := tbl.DeleteTag(ctx, "first"); err != nil || gone.Version != 2 {
		t.Errorf("%+v, %v", gone, err)
	}
	_, err = tbl.At(ctx, table.Ref{Tag: "first"})
	refused(t, err, fault.NotFound)
}

func TestOneOfManyMakesATag(t *testing.T) {
	t.Parallel()
	tbl := pictureTable(t)
	won := make(chan error, 8)
	for i := range cap(won) {
		go func() {
			_, err := tbl.CreateTag(t.Context(), "x", table.Ref{Version: uint64(1 + i%2)}, table.TagOptions{})
			won <- err
		}()
	}
	n := 0
	for range cap(won) {
		if err := <-won; err == nil {
			n++
		} else {
			refused(t, err, fault.Exists)
		}
	}
	if n != 1 {
		t.Errorf("%d made the tag", n)
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tbl := pictureTable(t)
	now := time.Now()
	s := tabletest.At(t, tbl, table.Ref{Version: 1})
	lease, err := tbl.Lease(ctx, s, now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	check := func(until time.Time) {
		t.Helper()
		tags, err := tbl.Tags(ctx)
		if err != nil || len(tags) != 1 || tags[0].Name != lease.Tag() || tags[0].Version != 1 {
			t.Fatalf("%+v, %v", tags, err)
		}
		said, ok := tags[0].LeasedUntil()
		if !ok || !said.Equal(until) || tags[0].Expired(until.Add(-1)) || !tags[0].Expired(until) {
			t.Errorf("leased until %v, want %v", said, until)
		}
	}
	check(now.Add(time.Minute))
	if err := lease.Renew(ctx, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	check(now.Add(time.Hour))
	if _, err := tbl.DeleteTag(ctx, lease.Tag()); err != nil { // as a cleanup does after it has expired
		t.Fatal(err)
	}
	if err := lease.Renew(ctx, now.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	check(now.Add(2 * time.Hour))
	for range 2 {
		if err := lease.Free(ctx); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, lease.Renew(ctx, now.Add(time.Hour)), fault.Precondition)
	if tags, err := tbl.Tags(ctx); err != nil || len(tags) > 0 {
		t.Errorf("%+v, %v", tags, err)
	}
	if (table.Tag{Name: "flightblob-lease-x"}).Expired(now) || (table.Tag{Name: "x", Metadata: map[string]string{"flightblob.lease.until": "2001-01-01T00:00:00Z"}}).Expired(now) {
		t.Error("a tag that is no lease expires")
	}
}

func TestBranches(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tbl := pictureTable(t)
	first, err := tbl.CreateBranch(ctx, "dev", table.Ref{Version: 1})
	if err != nil || first.Version() != 1 || first.Rows() != 20 {
		t.Fatalf("%v, %v", first, err)
	}
	addPictures(t, tbl, "dev", 30, 3)
	if _, err := tbl.CreateTag(ctx, "on-dev", table.Ref{Branch: "dev", Version: 2}, table.TagOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.CreateBranch(ctx, "dev/two", table.Ref{Tag: "on-dev"}); err != nil {
		t.Fatal(err)
	}
	addPictures(t, tbl, "dev/two", 40, 2)
	for branch, rows := range map[string]int{"": 25, "dev": 23, "dev/two": 25} {
		s := tabletest.At(t, tbl, table.Ref{Branch: branch})
		got := readPictures(t, s)
		if len(got) != rows {
			t.Errorf("branch %q has %d rows, want %d", branch, len(got), rows)
		}
		for id, value := range got {
			if string(value) != string(picture(int(id))) {
				t.Errorf("branch %q: row %d has another value", branch, id)
			}
		}
	}
	if tags, err := tbl.Tags(ctx); err != nil || len(tags) != 1 {
		t.Errorf("leases are left: %+v, %v", tags, err)
	}
	_, err = tbl.CreateBranch(ctx, "dev", table.Ref{})
	refused(t, err, fault.Exists, `"dev"`)
	_, err = tbl.CreateBranch(ctx, "x", table.Ref{Branch: "nowhere"})
	refused(t, err, fault.NotFound, "nowhere", "dev")
	_, err = tbl.CreateBranch(ctx, "main", table.Ref{})
	refused(t, err, fault.Invalid, "main")
	_, err = tbl.CreateBranch(ctx, "dev/data", table.Ref{})
	refused(t, err, fault.Invalid, "data")
	_, err = tbl.CreateBranch(ctx, strings.Repeat("d/", 70)+"d", table.Ref{}) // %2F for each slash
	refused(t, err, fault.Invalid, "a name of 286 bytes")

	refused(t, tbl.DeleteBranch(ctx, "x"), fault.NotFound, `"x"`, "dev")
	refused(t, tbl.DeleteBranch(ctx, "main"), fault.Invalid)
	refused(t, tbl.DeleteBranch(ctx, "dev"), fault.Precondition, "tag on-dev", "branch dev/two")
	if _, err := tbl.DeleteTag(ctx, "on-dev"); err != nil {
		t.Fatal(err)
	}
	refused(t, tbl.DeleteBranch(ctx, "dev"), fault.Precondition, "branch dev/two")
	if err := tbl.DeleteBranch(ctx, "dev/two"); err != nil {
		t.Fatal(err)
	}
	if err := tbl.DeleteBranch(ctx, "dev"); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, tbl.Root()) {
		if strings.Contains(o, "tree/") || strings.Contains(o, "_refs/") {
			t.Errorf("%s is left", o)
		}
	}
	checkPictures(t, tabletest.At(t, tbl, table.Ref{}), 25)
}

// TestABranchBelowAnother deletes a branch in whose folder another one lies,
// that does not descend from it.
func TestABranchBelowAnother(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tbl := pictureTable(t)
	for _, name := range []string{"a", "a/b"} {
		if _, err := tbl.CreateBranch(ctx, name, table.Ref{}); err != nil {
			t.Fatal(err)
		}
		addPictures(t, tbl, name, 25, 3)
	}
	// One that another process makes at this moment has a manifest and no file yet.
	making := tbl.Root().Join("tree", "a", "c", "_versions", "x.manifest")
	if err := making.PutIfAbsent(ctx, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := tbl.DeleteBranch(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	checkPictures(t, tabletest.At(t, tbl, table.Ref{Branch: "a/b"}), 28)
	if _, err := making.Size(ctx); err != nil {
		t.Errorf("a branch that is being made lost its manifest: %v", err)
	}
	if err := making.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	if left := slices.DeleteFunc(objects(t, tbl.Root().Join("tree")), func(o string) bool { return strings.Contains(o, "a/b/") }); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tbl := pictureTable(t)
	if _, err := tbl.CreateTag(ctx, "one", table.Ref{Version: 1}, table.TagOptions{}); err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	for _, on := range []*bool{&yes, &no} {
		if _, err := tbl.Set(ctx, "", &table.Settings{Managed: on}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("CAP-3 flags stay", func(t *testing.T) {
		s, err := tbl.Restore(ctx, "", table.Ref{Tag: "one"})
		if err != nil || s.Version() != 5 {
			t.Fatalf("%v, %v", s, err)
		}
		checkPictures(t, s, 20)
		if m := s.Manifest(); m.ReaderFlags&(1<<14) == 0 || m.WriterFlags&(1<<14) == 0 || m.Schema.Metadata[schema.KeyManaged] != "" {
			t.Errorf("flags %b, %b, metadata %v", m.ReaderFlags, m.WriterFlags, m.Schema.Metadata)
		}
	})
	addPictures(t, tbl, "", 20, 1)
	s := tabletest.At(t, tbl, table.Ref{})
	if id := s.Manifest().Fragments[len(s.Manifest().Fragments)-1].ID; id != 2 {
		t.Errorf("the next fragment has id %d", id)
	}
	if _, err := tbl.CreateBranch(ctx, "dev", table.Ref{Version: 2}); err != nil {
		t.Fatal(err)
	}
	addPictures(t, tbl, "dev", 25, 1)
	if s, err := tbl.Restore(ctx, "dev", table.Ref{Version: 2}); err != nil || s.Version() != 4 {
		t.Errorf("%v, %v", s, err)
	} else {
		checkPictures(t, s, 25)
	}
	_, err := tbl.Restore(ctx, "dev", table.Ref{Tag: "one"})
	refused(t, err, fault.Invalid, "main", `"dev"`)
	_, err = tbl.Restore(ctx, "", table.Ref{Version: 99})
	refused(t, err, fault.NotFound, "99")
}

// TestHistoryWithPylance lets both make, read, write and delete references.
func TestHistoryWithPylance(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tbl := pictureTable(t)
	session := tabletest.StartSession(t)
	run := func(value any, format string, args ...any) {
		t.Helper()
		session.Run(value, fmt.Sprintf(format, args...))
	}
	run(nil, `
import lance, pyarrow as pa
path = %q
def rows(version):
    d = lance.dataset(path).checkout_version(version)
    ids = d.to_table(columns=["id"])["id"].to_pylist()
    for b in d.take_blobs("img", indices=list(range(len(ids)))):
        assert b is None or len(b.readall()) == b.size()
    return sorted(ids)
`, tbl.Root().Path)
	if _, err := tbl.CreateBranch(ctx, "ours", table.Ref{Version: 1}); err != nil {
		t.Fatal(err)
	}
	addPictures(t, tbl, "ours", 20, 2)
	if _, err := tbl.CreateBranch(ctx, "ours/below", table.Ref{Branch: "ours"}); err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.CreateTag(ctx, "t-ours", table.Ref{Branch: "ours"}, table.TagOptions{}); err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, version := range []string{`("ours", None)`, `"t-ours"`, `("ours/below", None)`} {
		run(&ids, `rows(%s)`, version)
		if len(ids) != 22 {
			t.Errorf("pylance sees %v in %s", ids, version)
		}
	}
	// pylance writes to our branch and branches off it, we write to its branch.
	run(nil, `
d = lance.dataset(path).checkout_version(("ours", None))
d.delete("id = 0")
d.create_branch("theirs", ("ours", None))
d.tags.create("t-theirs", ("ours", 2))
`)
	if s := tabletest.At(t, tbl, table.Ref{Branch: "ours"}); s.Rows() != 21 || s.Version() != 3 {
		t.Errorf("%d rows in version %d", s.Rows(), s.Version())
	}
	addPictures(t, tbl, "theirs", 30, 2)
	run(&ids, `rows(("theirs", None))`)
	if len(ids) != 23 || len(readPictures(t, tabletest.At(t, tbl, table.Ref{Branch: "theirs"}))) != 23 {
		t.Errorf("their branch has %v", ids)
	}
	var seen struct {
		Branches map[string]struct {
			Parent  string `json:"parent_branch"`
			Version uint64 `json:"parent_version"`
		}
		Tags map[string]uint64
	}
	run(&seen, `
d = lance.dataset(path)
{"branches": {k: dict(v) for k, v in d.branches.list().items()}, "tags": {k: v["version"] for k, v in d.tags.list().items()}}
`)
	if diff := cmp.Diff(map[string]uint64{"t-ours": 2, "t-theirs": 2}, seen.Tags); diff != "" {
		t.Error(diff)
	}
	if b := seen.Branches["ours/below"]; b.Parent != "ours" || b.Version != 2 {
		t.Errorf("%+v", seen.Branches)
	}
	// Each refuses to delete what the other's references need.
	if text := session.Try(nil, `lance.dataset(path).branches.delete("ours")`); text == "" {
		t.Error("pylance deletes a branch with tags and branches")
	}
	refused(t, tbl.DeleteBranch(ctx, "ours"), fault.Precondition, "tag t-ours", "tag t-theirs", "branch ours/below", "branch theirs")
	run(nil, `
d = lance.dataset(path)
d.tags.delete("t-ours")
d.branches.delete("ours/below")
`)
	if err := tbl.DeleteBranch(ctx, "theirs"); err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.DeleteTag(ctx, "t-theirs"); err != nil {
		t.Fatal(err)
	}
	// Restores of both.
	if _, err := tbl.Restore(ctx, "ours", table.Ref{Version: 2}); err != nil {
		t.Fatal(err)
	}
	run(&ids, `rows(("ours", None))`)
	if len(ids) != 22 {
		t.Errorf("pylance sees %v", ids)
	}
	run(nil, `
d = lance.dataset(path).checkout_version(("ours", 3))
d.restore()
`)
	if s := tabletest.At(t, tbl, table.Ref{Branch: "ours"}); s.Rows() != 21 || s.Version() != 5 {
		t.Errorf("%d rows in version %d", s.Rows(), s.Version())
	}
	run(nil, `lance.dataset(path).branches.delete("ours")`)
	_, err := tbl.At(ctx, table.Ref{Branch: "ours"})
	refused(t, err, fault.NotFound, "it has none")
	checkPictures(t, tabletest.At(t, tbl, table.Ref{}), 25)
}
