package maintain

import (
	"context"
	"path"
	"strings"

	"github.com/google/uuid"

	"github.com/flightblob/flightblob/blob"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table/manifest"
)

const (
	blobsDir   = blob.ManagedDir
	refsDir    = "_refs"
	tempPrefix = ".tmp" // of names that writers give to what is not published yet, here and in the reference
)

// swept are the folders of a line that are looked through. Everything else in the
// folder of a table is never touched, and no other base is (GC-8, GC-10).
var swept = []string{
	manifest.DataDir, blobsDir, manifest.DeletionsDir, manifest.IndicesDir, manifest.TransactionsDir, manifest.VersionsDir, refsDir,
}

// found is a file that no version that stays needs.
type found struct {
	objstore.Object
	path  string // below the root
	class Class
}

// holdsValues says that the file is an object of blob values.
func (f found) holdsValues() bool { return f.class == Objects || f.class == Sidecars }

// walk shows the files below some folders that no version that stays needs.
func (p *proof) walk(ctx context.Context, dirs []string, visit func(found) error) error {
	for _, dir := range dirs {
		for o, err := range objstore.Walk(ctx, p.root.Join(dir)) {
			if err != nil {
				return err
			}
			f := found{Object: o, path: dir + "/" + o.Name}
			class, ok := classify(dir, o.Name)
			if !ok {
				continue
			}
			f.class = class
			if p.needs(f) {
				continue
			}
			if err := visit(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// classify says what a file is by its path below one of the swept folders (sheet
// section 7.2). Files of other names are somebody else's.
func classify(dir, name string) (Class, bool) {
	base := path.Base(name)
	if strings.HasPrefix(base, tempPrefix) {
		return Temporary, true
	}
	direct := base == name
	switch dir {
	case manifest.DataDir:
		if strings.HasSuffix(base, ".lance") {
			return DataFiles, true
		}
		folder, rest, _ := strings.Cut(name, "/")
		return Sidecars, folder != "" && sidecarName(rest)
	case blobsDir:
		return Objects, direct && strings.HasSuffix(base, ".blob")
	case manifest.DeletionsDir:
		return DeletionFiles, direct && (strings.HasSuffix(base, ".arrow") || strings.HasSuffix(base, ".bin"))
	case manifest.IndicesDir:
		folder, _, below := strings.Cut(name, "/")
		return IndexFiles, below && uuid.Validate(folder) == nil
	case manifest.TransactionsDir:
		return TransactionFiles, direct && strings.HasSuffix(base, ".txn")
	}
	return 0, false
}

// needs says that a version that stays needs a file (GC-5, GC-6, GC-7).
func (p *proof) needs(f found) bool {
	base := path.Base(f.path)
	switch f.class {
	case DataFiles:
		return has(p.kept.data, base) || p.kept.object(base)
	case Sidecars:
		return has(p.kept.data, stem(f.path)+".lance") || p.kept.object(tail(f.path))
	case Objects:
		return p.kept.object(tail(f.path))
	case DeletionFiles:
		return has(p.kept.deletions, base)
	case IndexFiles:
		return has(p.kept.indexes, stem(f.path))
	case TransactionFiles:
		return has(p.kept.transactions, base)
	}
	return false
}

// mayGo says that a file that no version needs may go: because only versions that
// go know it, or because it is old (GC-9).
func (p *proof) mayGo(f found) bool {
	known := false
	switch f.class {
	case DataFiles:
		known = has(p.expired.data, f.path)
	case Sidecars:
		known = has(p.expired.data, path.Dir(f.path)+".lance") || p.expired.object(f.path)
	case Objects:
		known = p.expired.object(f.path)
	case DeletionFiles:
		known = has(p.expired.deletions, f.path)
	case IndexFiles:
		known = has(p.expired.indexes, stem(f.path))
	case TransactionFiles:
		known = has(p.expired.transactions, path.Base(f.path))
	}
	return known || p.policy.stale(f.Modified)
}

// stem is the name of the folder right below the swept one.
func stem(p string) string {
	_, rest, _ := strings.Cut(p, "/")
	folder, _, _ := strings.Cut(rest, "/")
	return folder
}
