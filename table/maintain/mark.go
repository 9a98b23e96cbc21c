package maintain

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/manifest"
)

// markName is the object that tells a deep clone in the making, so that another
// attempt goes on with it. A cleanup of a table takes it for a temporary file of a
// writer (sheet section 7.2).
const markName = ".tmp-deep-clone"

// reserved is what clients leave in the folder of a table that they declared only.
const reserved = ".lance-reserved"

// mark says what a folder is about to be a deep clone of.
type mark struct {
	Source      string    `json:"clone_of"`
	Branch      string    `json:"branch,omitempty"`
	Version     uint64    `json:"version"`
	Committed   time.Time `json:"committed"`
	Transaction string    `json:"transaction,omitempty"`
	ID          uuid.UUID `json:"id"` // of the clone; new names come from it

	at    objstore.Location
	found bool // it was there
}

// markTarget marks an empty folder, or finds the mark of the same clone there.
func markTarget(ctx context.Context, s *table.Snapshot, root objstore.Location) (*mark, error) {
	m := &mark{
		Source: s.Table().Root().String(), Branch: s.Ref().Branch, Version: s.Version(), Committed: s.Manifest().Timestamp,
		Transaction: s.Manifest().TransactionID, ID: uuid.New(), at: root.Join(manifest.DataDir, markName),
	}
	there, err := m.read(ctx)
	if err != nil || there {
		return m, err
	}
	for e, err := range root.List(ctx) {
		if err != nil {
			return nil, fmt.Errorf("maintain: list %s: %w", root, err)
		}
		if e.Name != reserved {
			return nil, fault.New(fault.Precondition, "maintain: %s holds %q already; a deep clone needs an empty folder", root, e.Name)
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fault.New(fault.Internal, "maintain: %w", err)
	}
	err = m.at.PutIfAbsent(ctx, data)
	if fault.KindOf(err) != fault.Exists && !errors.Is(err, objstore.ErrUncertain) {
		return m, err
	}
	if there, rerr := m.read(ctx); rerr != nil || there { // somebody else is at the same clone, or it was ours
		return m, rerr
	}
	return nil, err
}

// maxMarkBytes bounds the object, which has some hundred bytes.
const maxMarkBytes = 1 << 20

// read takes the id over from a mark that is there. One of another clone is
// fault.Precondition.
func (m *mark) read(ctx context.Context) (there bool, err error) {
	data, err := objstore.ReadAll(ctx, m.at, maxMarkBytes)
	if err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return false, nil
		}
		return false, fmt.Errorf("maintain: read %s: %w", m.at, err)
	}
	var have mark
	if err := json.Unmarshal(data, &have); err != nil {
		return false, fault.New(fault.Precondition, "maintain: %s cannot be read (%w); remove the folder that it is in, or clone to another one", m.at, err)
	}
	same := have.Source == m.Source && have.Branch == m.Branch && have.Version == m.Version &&
		have.Committed.Equal(m.Committed) && have.Transaction == m.Transaction
	if !same {
		return false, fault.New(fault.Precondition, "maintain: the folder holds a clone of version %d of %s that was begun and not finished; finish it, remove the folder, or clone to another one",
			have.Version, fault.Quote(have.Source))
	}
	m.ID, m.found = have.ID, true
	return true, nil
}

// name gives a new name for what lies at a place, the same one each time, in the
// form of a random one (PCK-6).
func (m *mark) name(of objstore.Location) uuid.UUID {
	return uuid.NewHash(sha256.New(), m.ID, []byte(of.String()), 4)
}

// remove ends the making. A mark that stays is removed by cleanups.
func (m *mark) remove(ctx context.Context) { _ = m.at.Delete(context.WithoutCancel(ctx)) }
