package table

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// The folders of manifests and of transactions, and the bit that marks a version
// which is not part of the history (table-format sheet sections 1 and 1.4).
const (
	versionsDir     = "_versions"
	transactionsDir = "_transactions"
	detachedBit     = uint64(1) << 63
)

// scheme is how a folder names its manifests.
type scheme uint8

const (
	schemeV1 scheme = iota + 1 // <version>.manifest
	schemeV2                   // <2^64-1-version>.manifest, 20 digits, so that the newest comes first
)

// v2NameLength is the length of a V2 manifest name, which no V1 name has.
const v2NameLength = 29

// parseManifestName reads the version that a name in _versions stands for; ok
// is false for anything that is not an attached manifest, such as temporary
// files, the version hint and detached versions.
func parseManifestName(name string) (version uint64, s scheme, ok bool) {
	digits, found := strings.CutSuffix(name, ".manifest")
	if !found || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	s = schemeV1
	if len(name) == v2NameLength {
		s, n = schemeV2, math.MaxUint64-n
	}
	if n == 0 || n&detachedBit != 0 {
		return 0, 0, false
	}
	return n, s, true
}

// detachedName is the manifest name of a detached version.
func detachedName(version uint64) string { return fmt.Sprintf("d%d.manifest", version) }

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
	seen := scheme(0)
	count := 0
	for e, err := range root.Join(versionsDir).List(ctx) {
		if err != nil {
			return nil, fmt.Errorf("table: list versions: %w", err)
		}
		count++
		if e.Dir {
			continue
		}
		version, s, ok := parseManifestName(e.Name)
		if !ok {
			continue
		}
		if seen != 0 && s != seen {
			return nil, fault.New(fault.Corrupt,
				"table: _versions holds manifests of both naming schemes (%s and others); one of them was put there by hand", e.Name)
		}
		seen = s
		found = append(found, published{version, e})
		if newestOnly && s == schemeV2 && count >= firstPage {
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
	for i := 1; i < len(found); i++ {
		if found[i].version == found[i-1].version { // "7.manifest" and "07.manifest"
			return nil, fault.New(fault.Corrupt, "table: version %d has two manifests, %s and %s",
				found[i].version, found[i-1].entry.Name, found[i].entry.Name)
		}
	}
	return found, nil
}
