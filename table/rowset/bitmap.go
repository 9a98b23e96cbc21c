package rowset

import "iter"

// Bitmap is a set of 32-bit numbers: fragment ids, or offsets in a fragment.
type Bitmap struct{ members Deletions }

// DecodeBitmap reads a portable Roaring bitmap; nothing may follow it.
func DecodeBitmap(data []byte) (*Bitmap, error) {
	b := &Bitmap{members: Deletions{rows: maxRows}}
	if err := b.members.readRoaring(data); err != nil {
		return nil, err
	}
	return b, nil
}

// Count is the number of members.
func (b *Bitmap) Count() uint64 { return b.members.count }

// Contains says that v is a member.
func (b *Bitmap) Contains(v uint32) bool { return b.members.Contains(uint64(v)) }

// Ranges gives the members as half-open ranges, ascending, none empty; some may
// be adjacent.
func (b *Bitmap) Ranges() iter.Seq[Range] { return b.members.deletedFrom(0) }
