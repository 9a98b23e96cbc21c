package rowset

import "github.com/flightblob/flightblob/internal/lancepb"

// UniformVersions is one version for each of so many rows.
func UniformVersions(physicalRows, version uint64) *Versions {
	v := &Versions{}
	v.add(physicalRows, version)
	return v
}

// JoinVersions is several sequences, one after the other.
func JoinVersions(parts ...*Versions) *Versions {
	v := &Versions{}
	for _, p := range parts {
		start := uint64(0)
		for i, end := range p.ends {
			v.add(end-start, p.versions[i])
			start = end
		}
	}
	return v
}

// Live is the versions of the rows that are not deleted, in order. d is of the
// same fragment.
func (v *Versions) Live(d *Deletions) *Versions {
	out := &Versions{}
	for r := range d.LiveRanges(0, d.Live()) {
		out.addRange(v, r)
	}
	return out
}

// With is the sequence with another version for some rows, given as a set of
// offsets of the same fragment.
func (v *Versions) With(rows *Deletions, version uint64) *Versions {
	out := &Versions{}
	at := uint64(0)
	for r := range rows.Ranges() {
		out.addRange(v, Range{at, r.Start})
		out.add(r.Len(), version)
		at = r.End
	}
	out.addRange(v, Range{at, v.Len()})
	return out
}

// addRange adds the versions of some rows of another sequence.
func (v *Versions) addRange(from *Versions, r Range) {
	for i := from.locate(r.Start); r.Start < r.End; i++ {
		stop := min(r.End, from.ends[i])
		v.add(stop-r.Start, from.versions[i])
		r.Start = stop
	}
}

// Encode gives the RowDatasetVersionSequence message, spans as ranges of rows.
func (v *Versions) Encode() []byte {
	pb := &lancepb.RowVersionSequence{}
	start := uint64(0)
	for i, end := range v.ends {
		pb.Runs = append(pb.Runs, &lancepb.RowVersionSequence_Run{Span: rangeMessage(start, end), Version: v.versions[i]})
		start = end
	}
	return marshal(pb)
}
