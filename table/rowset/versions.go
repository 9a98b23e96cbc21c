package rowset

import (
	"sort"

	"google.golang.org/protobuf/proto"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/internal/lancepb"
)

// Versions are table versions, one for each physical row of a fragment: in
// which a row was created, or last updated (section 5.4).
type Versions struct {
	ends     []uint64 // row after the last of each run
	versions []uint64
}

// DecodeVersions reads a RowDatasetVersionSequence of a fragment with so many
// physical rows. Only the lengths of its spans count; together they must be
// the number of rows, else it is fault.Corrupt.
func DecodeVersions(data []byte, physicalRows uint64) (*Versions, error) {
	pb := new(lancepb.RowVersionSequence)
	if err := proto.Unmarshal(data, pb); err != nil {
		return nil, fault.Corruptf(-1, "rowset: not a sequence of row versions: %v", err)
	}
	v := &Versions{}
	for i, run := range pb.GetRuns() {
		seg, err := decodeSegment(run.GetSpan())
		if err != nil {
			return nil, fault.Corruptf(-1, "rowset: row version run %d: %v", i, err)
		}
		if n := seg.len(); n > physicalRows-v.Len() {
			return nil, fault.Corruptf(-1, "rowset: more than %d row versions for %d rows", v.Len(), physicalRows)
		}
		v.add(seg.len(), run.GetVersion())
	}
	if v.Len() != physicalRows {
		return nil, fault.Corruptf(-1, "rowset: %d row versions for %d rows", v.Len(), physicalRows)
	}
	return v, nil
}

// DefaultVersions is what a fragment without such a sequence has: version 1 for
// each row.
func DefaultVersions(physicalRows uint64) *Versions {
	v := &Versions{}
	v.add(physicalRows, 1)
	return v
}

// VersionsOf makes a sequence of the values of a hidden column.
func VersionsOf(values []uint64) *Versions {
	v := &Versions{}
	for _, version := range values {
		v.add(1, version)
	}
	return v
}

func (v *Versions) add(rows, version uint64) {
	if rows == 0 {
		return
	}
	end := v.Len() + rows
	if n := len(v.ends); n > 0 && v.versions[n-1] == version {
		v.ends[n-1] = end
		return
	}
	v.ends = append(v.ends, end)
	v.versions = append(v.versions, version)
}

// Len is the number of rows.
func (v *Versions) Len() uint64 {
	if len(v.ends) == 0 {
		return 0
	}
	return v.ends[len(v.ends)-1]
}

// At is the version of the row at a physical offset below Len.
func (v *Versions) At(offset uint64) uint64 { return v.versions[v.locate(offset)] }

// AppendRange adds the versions of the physical rows [start, end) to dst; end
// is at most Len.
func (v *Versions) AppendRange(dst []uint64, start, end uint64) []uint64 {
	for i := v.locate(start); start < end; i++ {
		for stop := min(end, v.ends[i]); start < stop; start++ {
			dst = append(dst, v.versions[i])
		}
	}
	return dst
}

func (v *Versions) locate(offset uint64) int {
	return sort.Search(len(v.ends), func(i int) bool { return v.ends[i] > offset })
}
