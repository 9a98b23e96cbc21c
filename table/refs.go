package table

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// maxRefBytes bounds a reference file, which has a few hundred bytes.
const maxRefBytes = 1 << 20

// Tag is a named version.
type Tag struct {
	Name      string
	Branch    string // "" = main
	Version   uint64
	CreatedAt time.Time // zero when the file does not say
	UpdatedAt time.Time // zero when the file does not say
	Metadata  map[string]string
}

// Branch is a line of versions that left its parent at one of them.
type Branch struct {
	Name          string
	ParentBranch  string // "" = main
	ParentVersion uint64
	CreatedAt     time.Time // zero when the file does not say

	identifier []manifest.BranchPoint
}

// Tags lists the tags of the table by name.
func (t *Table) Tags(ctx context.Context) ([]Tag, error) {
	var tags []Tag
	for name, err := range refNames(ctx, t.root, manifest.TagsDir) {
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
	for name, err := range refNames(ctx, t.root, manifest.BranchesDir) {
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
	path, err := manifest.TagPath(name)
	if err != nil {
		return Tag{}, errRefGone // what can name no file leads nowhere
	}
	f, err := readRef(ctx, t.root.Join(path), manifest.DecodeTag)
	if err != nil {
		return Tag{}, err
	}
	if f.Version == 0 {
		return Tag{}, fault.New(fault.Corrupt, "table: tag %q names no version", name)
	}
	return tagFrom(name, f), nil
}

// branch reads one branch; errRefGone when there is none.
func (t *Table) branch(ctx context.Context, name string) (Branch, error) {
	path, err := manifest.BranchPath(name)
	if err != nil {
		return Branch{}, errRefGone
	}
	f, err := readRef(ctx, t.root.Join(path), manifest.DecodeBranch)
	if err != nil {
		return Branch{}, err
	}
	b := Branch{Name: name, ParentBranch: f.Parent, ParentVersion: f.ParentVersion, identifier: f.Identifier}
	if f.CreatedAt.Unix() > 0 {
		b.CreatedAt = f.CreatedAt
	}
	return b, nil
}

// readRef reads a reference file.
func readRef[T any](ctx context.Context, loc objstore.Location, decode func([]byte) (*T, error)) (*T, error) {
	data, err := objstore.ReadAll(ctx, loc, maxRefBytes)
	if err != nil && fault.KindOf(err) == fault.NotFound {
		return nil, errRefGone
	}
	if err != nil {
		return nil, fmt.Errorf("table: read reference %s: %w", loc, err)
	}
	ref, err := decode(data)
	return ref, fault.In(loc.String(), err)
}

// refNames lists the references that a folder of the main table holds,
// unescaped. They always lie there, also those made from a branch.
func refNames(ctx context.Context, root objstore.Location, dir string) iter.Seq2[string, error] {
	parse := manifest.ParseTagFile
	if dir == manifest.BranchesDir {
		parse = manifest.ParseBranchFile
	}
	return func(yield func(string, error) bool) {
		for e, err := range root.Join(dir).List(ctx) {
			if err != nil {
				yield("", err)
				return
			}
			name, ok := parse(e.Name)
			if !ok || e.Dir {
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
	for n, err := range refNames(ctx, t.root, dir) {
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
