package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// Folders of references; they always lie in the main table, also those that
// were created from a branch (table-format sheet section 6.4).
const (
	tagsDir     = "_refs/tags"
	branchesDir = "_refs/branches"
	branchTree  = "tree"
	mainBranch  = "main"

	maxRefBytes = 1 << 20 // a reference file is a few hundred bytes
)

// Tag is a named version.
type Tag struct {
	Name      string
	Branch    string // "" = main
	Version   uint64
	CreatedAt time.Time // zero when the file does not say
	UpdatedAt time.Time // zero when the file does not say
}

// Branch is a line of versions that left its parent at one of them.
type Branch struct {
	Name          string
	ParentBranch  string // "" = main
	ParentVersion uint64
	CreatedAt     time.Time // zero when the file does not say
}

type tagFile struct {
	Branch    *string `json:"branch"`
	Version   uint64  `json:"version"`
	CreatedAt string  `json:"createdAt"`
	UpdatedAt string  `json:"updatedAt"`
}

type branchFile struct {
	ParentBranch  *string `json:"parentBranch"`
	ParentVersion uint64  `json:"parentVersion"`
	CreateAt      int64   `json:"createAt"` // unix seconds
}

// Tags lists the tags of the table by name.
func (t *Table) Tags(ctx context.Context) ([]Tag, error) {
	var tags []Tag
	for name, err := range refNames(ctx, t.root.Join(tagsDir)) {
		if err != nil {
			return nil, fmt.Errorf("table: list tags: %w", err)
		}
		tag, err := t.tag(ctx, name)
		if errors.Is(err, errRefGone) {
			continue // deleted since the listing
		}
		if err != nil {
			return nil, err
		}
		tags = append(tags, tag)
	}
	slices.SortFunc(tags, func(a, b Tag) int { return strings.Compare(a.Name, b.Name) })
	return tags, nil
}

// Branches lists the branches of the table by name; main is not among them.
func (t *Table) Branches(ctx context.Context) ([]Branch, error) {
	var branches []Branch
	for name, err := range refNames(ctx, t.root.Join(branchesDir)) {
		if err != nil {
			return nil, fmt.Errorf("table: list branches: %w", err)
		}
		branch, err := t.branch(ctx, name)
		if errors.Is(err, errRefGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		branches = append(branches, branch)
	}
	slices.SortFunc(branches, func(a, b Branch) int { return strings.Compare(a.Name, b.Name) })
	return branches, nil
}

// errRefGone says that a reference file is absent.
var errRefGone = errors.New("no such reference")

// tag reads one tag; errRefGone when there is none.
func (t *Table) tag(ctx context.Context, name string) (Tag, error) {
	var f tagFile
	if err := t.readRef(ctx, tagsDir, name, &f); err != nil {
		return Tag{}, err
	}
	if f.Version == 0 {
		return Tag{}, fault.New(fault.Corrupt, "table: tag %q names no version", name)
	}
	return Tag{
		Name: name, Branch: branchName(f.Branch), Version: f.Version,
		CreatedAt: refTime(f.CreatedAt), UpdatedAt: refTime(f.UpdatedAt),
	}, nil
}

// branch reads one branch; errRefGone when there is none.
func (t *Table) branch(ctx context.Context, name string) (Branch, error) {
	var f branchFile
	if err := t.readRef(ctx, branchesDir, name, &f); err != nil {
		return Branch{}, err
	}
	b := Branch{Name: name, ParentBranch: branchName(f.ParentBranch), ParentVersion: f.ParentVersion}
	if f.CreateAt > 0 {
		b.CreatedAt = time.Unix(f.CreateAt, 0).UTC()
	}
	return b, nil
}

func branchName(p *string) string {
	if p == nil || *p == mainBranch {
		return ""
	}
	return *p
}

// refTime reads an RFC 3339 time; it only informs, so a bad one is unknown.
func refTime(s string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// readRef decodes a reference file. A name that can name no file is absent,
// so a hostile one never leaves the folder.
func (t *Table) readRef(ctx context.Context, dir, name string, into any) error {
	if !validRef(name) {
		return errRefGone
	}
	loc := t.root.Join(dir, strings.ReplaceAll(name, "/", "%2F")+".json")
	data, err := objstore.ReadAll(ctx, loc, maxRefBytes)
	if err != nil && fault.KindOf(err) == fault.NotFound {
		return errRefGone
	}
	if err != nil {
		return fmt.Errorf("table: read reference %q: %w", name, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault.In(dir+"/"+name+".json", fault.Corruptf(-1, "not a reference: %v", err))
	}
	return nil
}

// validRef checks the naming rule of tags and branches: letters, digits, and
// ". - _", in segments for branches, without "..", empty segments or ".lock".
func validRef(name string) bool {
	if strings.Contains(name, "..") || strings.HasSuffix(name, ".lock") {
		return false
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." {
			return false
		}
		for _, r := range segment {
			if !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '.' && r != '-' && r != '_' {
				return false
			}
		}
	}
	return true
}

// refNames lists the references that a folder holds, unescaped.
func refNames(ctx context.Context, dir objstore.Location) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for e, err := range dir.List(ctx) {
			if err != nil {
				yield("", err)
				return
			}
			name, ok := strings.CutSuffix(e.Name, ".json")
			name = strings.ReplaceAll(name, "%2F", "/")
			if !ok || e.Dir || !validRef(name) {
				continue
			}
			if !yield(name, nil) {
				return
			}
		}
	}
}

// missingRef is the error for a tag or branch that does not exist, naming
// those that do.
func (t *Table) missingRef(ctx context.Context, what, name, dir string) error {
	var have []string
	for n, err := range refNames(ctx, t.root.Join(dir)) {
		if err != nil {
			return fmt.Errorf("table: list references: %w", err)
		}
		have = append(have, n)
	}
	slices.Sort(have)
	return fault.New(fault.NotFound, "table: %s has no %s %q; %s", t.name, what, name, existing(what, have))
}

// existing says which of a kind exist, at most a handful.
func existing(what string, have []string) string {
	const most = 20
	switch {
	case len(have) == 0:
		return "it has none"
	case len(have) > most:
		return fmt.Sprintf("it has %d, among them %s", len(have), strings.Join(have[:most], ", "))
	}
	return "it has " + strings.Join(have, ", ")
}
