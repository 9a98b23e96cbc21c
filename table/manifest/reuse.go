package manifest

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table/rowset"
)

// Reuse says where compactions moved rows whose indexes were not rewritten: the
// details of the index FragmentReuse (section 7.4), oldest compaction first.
type Reuse struct {
	Moves []Move
	// File holds the moves when they are not in the manifest; then Moves is empty
	// until DecodeMoves has read it.
	File *ReuseFile
}

// ReuseFile is a part of a file in the folder of the index.
type ReuseFile struct {
	Path         string
	Offset, Size uint64
}

// Move is one group of fragments that became others. The surviving rows of the
// old ones, in order, are the rows of the new ones.
type Move struct {
	Old, New []MovedFragment
	Rows     []rowset.Range // addresses of the surviving rows
}

// mostMovedRanges bounds the memory of all moves.
const mostMovedRanges = 4 << 20

// MovedFragment is a fragment before or after a move.
type MovedFragment struct{ ID, PhysicalRows uint64 }

// DecodeReuse reads the details of the index FragmentReuse.
func DecodeReuse(details []byte) (*Reuse, error) {
	r := &Reuse{}
	err := eachValue(details, func(number protowire.Number, value uint64, body []byte) (err error) {
		switch number {
		case 1:
			r.Moves, err = DecodeMoves(body)
		case 2:
			r.File = &ReuseFile{}
			err = eachValue(body, func(number protowire.Number, value uint64, body []byte) error {
				switch number {
				case 1:
					r.File.Path = string(body)
				case 2:
					r.File.Offset = value
				case 3:
					r.File.Size = value
				}
				return nil
			})
			if err == nil {
				err = checkRelative(r.File.Path)
			}
		default:
			err = unknownReuse(number)
		}
		return err
	})
	return r, err
}

func unknownReuse(number protowire.Number) error {
	return fault.New(fault.Unsupported, "manifest: field %d in %s, of a newer writer", number, FragmentReuse)
}

// DecodeMoves reads the content of a fragment reuse index. What is not known of
// it is fault.Unsupported, since rows could have moved by that.
func DecodeMoves(content []byte) ([]Move, error) {
	var moves []Move
	most := mostMovedRanges
	err := eachValue(content, func(number protowire.Number, _ uint64, version []byte) error {
		if number != 1 {
			return unknownReuse(number)
		}
		return eachValue(version, func(number protowire.Number, _ uint64, group []byte) error {
			switch number {
			case 1: // the version of the compaction
				return nil
			case 3:
				m, err := decodeMove(group, most)
				moves, most = append(moves, m), most-len(m.Rows)
				return err
			}
			return unknownReuse(number)
		})
	})
	return moves, err
}

func decodeMove(group []byte, most int) (m Move, err error) {
	var survivors []byte
	err = eachValue(group, func(number protowire.Number, _ uint64, body []byte) error {
		switch number {
		case 1:
			survivors = body
			return nil
		case 2, 3:
			var f MovedFragment
			err := eachValue(body, func(number protowire.Number, value uint64, _ []byte) error {
				switch number {
				case 1:
					f.ID = value
				case 2:
					f.PhysicalRows = value
				}
				return nil
			})
			if err == nil && (f.ID >= maxRows || f.PhysicalRows > maxRows) {
				err = fault.Corruptf(-1, "manifest: %s has a fragment %d of %d rows", FragmentReuse, f.ID, f.PhysicalRows)
			}
			if number == 2 {
				m.Old = append(m.Old, f)
			} else {
				m.New = append(m.New, f)
			}
			return err
		}
		return unknownReuse(number)
	})
	if err != nil {
		return m, err
	}
	if m.Rows, err = rowset.DecodeTreemap(survivors, most); err != nil {
		return m, err
	}
	rows, room := uint64(0), uint64(0)
	for _, r := range m.Rows {
		rows += r.Len()
	}
	for _, f := range m.New {
		room += f.PhysicalRows
	}
	if rows != room {
		return m, fault.Corruptf(-1, "manifest: %s moves %d rows into fragments of %d", FragmentReuse, rows, room)
	}
	return m, nil
}

// eachValue walks the fields of a message: numbers, and bytes.
func eachValue(data []byte, visit func(number protowire.Number, value uint64, body []byte) error) error {
	for at := 0; at < len(data); {
		number, kind, n := protowire.ConsumeTag(data[at:])
		if n < 0 {
			return fault.Corruptf(int64(at), "manifest: not a protobuf message: %v", protowire.ParseError(n))
		}
		at += n
		var value uint64
		var body []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(data[at:])
		case protowire.BytesType:
			body, n = protowire.ConsumeBytes(data[at:])
		default:
			n = protowire.ConsumeFieldValue(number, kind, data[at:])
		}
		if n < 0 {
			return fault.Corruptf(int64(at), "manifest: not a protobuf message: %v", protowire.ParseError(n))
		}
		at += n
		if err := visit(number, value, body); err != nil {
			return err
		}
	}
	return nil
}
