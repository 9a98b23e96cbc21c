package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

// attached reads the version that a name in _versions stands for; ok is false
// for anything that is not part of the history, such as temporary files, the
// version hint and detached versions.
func attached(name string) (version uint64, s manifest.Scheme, ok bool) {
	version, s, ok = manifest.ParseName(name)
	return version, s, ok && version != 0 && s != manifest.Detached
}

// published is one manifest that a listing of _versions showed.
type published struct {
	version uint64
	entry   objstore.Entry
}

// firstPage is how many entries a search for the newest version reads before
// it trusts that a folder whose names sort newest first has no others.
const firstPage = 1000

// listVersions lists the attached versions of a branch, newest first. With
// newestOnly it may stop once it knows the newest; the answer then holds at
// least that one.
//
// The listing is the only authority here. _versions/latest_version_hint.json
// is not read: checking it costs at least two requests (the hinted version and
// the one after it) against one listing, and it may be stale or absent.
func listVersions(ctx context.Context, root objstore.Location, newestOnly bool) ([]published, error) {
	var found []published
	seen := manifest.Scheme(0)
	count := 0
	for e, err := range root.Join(manifest.VersionsDir).List(ctx) {
		if err != nil {
			return nil, fmt.Errorf("table: list versions: %w", err)
		}
		count++
		if e.Dir {
			continue
		}
		version, s, ok := attached(e.Name)
		if !ok {
			continue
		}
		if seen != 0 && s != seen {
			return nil, fault.New(fault.Corrupt,
				"table: _versions holds manifests of both naming schemes (%s and others); one of them was put there by hand", e.Name)
		}
		seen = s
		found = append(found, published{version, e})
		if newestOnly && s == manifest.V2 && count >= firstPage {
			break
		}
	}
	slices.SortFunc(found, func(a, b published) int {
		switch {
		case a.version > b.version:
			return -1
		case a.version < b.version:
			return 1
		}
		return 0
	})
	return found, nil
}
