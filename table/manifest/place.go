package manifest

import (
	"fmt"

	"github.com/flightblob/flightblob/internal/fault"
)

// Place is where something lies: below a registered base, or below the root
// that the manifest was read from (a branch's own folder, for a branch).
type Place struct {
	Base *Base  // nil: the root of the table or branch
	Path string // relative, "" for the base itself
}

// Join gives a place below p.
func (p Place) Join(path string) Place {
	if p.Path != "" {
		path = p.Path + "/" + path
	}
	return Place{Base: p.Base, Path: path}
}

// BaseOf looks a base up by its id; 0 is an id like any other. An id that is
// not registered is fault.Corrupt, since only stored bytes name bases.
func (m *Manifest) BaseOf(id uint32) (*Base, error) {
	b, ok := m.Bases[id]
	if !ok {
		return nil, fault.Corruptf(-1, "manifest: version %d names base %d, which it does not register", m.Version, id)
	}
	return &b, nil
}

// DataDir is the data directory of a file's base (RES-2): data below the root
// and below dataset roots, other bases themselves.
func (m *Manifest) DataDir(baseID *uint32) (Place, error) {
	if baseID == nil {
		return Place{Path: DataDir}, nil
	}
	b, err := m.BaseOf(*baseID)
	switch {
	case err != nil:
		return Place{}, err
	case b.IsDatasetRoot:
		return Place{Base: b, Path: DataDir}, nil
	}
	return Place{Base: b}, nil
}

// FilePlace is where a data file lies.
func (m *Manifest) FilePlace(d *DataFile) (Place, error) {
	dir, err := m.DataDir(d.BaseID)
	if err != nil {
		return Place{}, err
	}
	return dir.Join(d.Path), nil
}

// DeletionPlace is where the deletion file of a fragment lies (section 5.2);
// ok is false when the fragment has none. Bases that are not dataset roots hold
// no deletion files.
func (m *Manifest) DeletionPlace(f *Fragment) (place Place, ok bool, err error) {
	d := f.Deletion
	if d == nil {
		return Place{}, false, nil
	}
	extension := "arrow"
	if d.Bitmap {
		extension = "bin"
	}
	place.Path = fmt.Sprintf("%s/%d-%d-%d.%s", DeletionsDir, f.ID, d.ReadVersion, d.ID, extension)
	if d.BaseID == nil {
		return place, true, nil
	}
	if place.Base, err = m.BaseOf(*d.BaseID); err != nil {
		return Place{}, false, err
	}
	if !place.Base.IsDatasetRoot {
		return Place{}, false, fault.Corruptf(-1, "manifest: the deletion file of fragment %d is in base %d, which is not a dataset root", f.ID, *d.BaseID)
	}
	return place, true, nil
}
