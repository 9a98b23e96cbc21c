// Package fault is the one vocabulary of failures.
//
// Every room reports what went wrong as an *Error (or wraps one), so that the
// front door can turn it into a protocol status by one table, and so that a
// corruption always says which object and which byte offset it was seen at.
// The package knows nothing of gRPC, Arrow or Lance.
package fault

import (
	"errors"
	"fmt"
)

// Kind says what a caller can do about a failure.
type Kind uint8

// The kinds, with what they mean to the person who asked.
const (
	Internal     Kind = iota // a fault of this program
	Invalid                  // the request is wrong; change it
	NotFound                 // the named thing does not exist
	Exists                   // the named thing exists already
	Precondition             // the state of the table or server forbids it
	Conflict                 // lost a race; read again and retry
	Exhausted                // a limit was hit; ask for less or raise it
	Denied                   // this server may not touch that
	Corrupt                  // stored bytes are damaged, cut short or missing
	Unsupported              // a feature of a newer or foreign writer
	Unavailable              // a store that cannot be reached now; try again
)

var kindNames = [...]string{
	"internal", "invalid", "not found", "already exists", "failed precondition",
	"conflict", "exhausted", "denied", "corrupt", "unsupported", "unavailable",
}

// String names the kind in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Error is a failure with its kind and, for stored bytes, its place.
type Error struct {
	Kind   Kind
	Object string // file or object that the bytes came from; may be empty
	Offset int64  // byte offset in Object, or -1 when it has none
	Text   string // what was seen, what is allowed, what to do
	Err    error  // cause, may be nil
}

// Error joins place, text and cause.
func (e *Error) Error() string {
	s := e.Text
	if e.Kind == Corrupt && e.Object != "" {
		if e.Offset >= 0 {
			s = fmt.Sprintf("%s at byte %d: %s", e.Object, e.Offset, s)
		} else {
			s = e.Object + ": " + s
		}
	}
	if e.Err == nil {
		return s
	}
	switch cause := e.Err.Error(); {
	case s == "":
		return cause
	case cause != "":
		return s + ": " + cause
	default:
		return s
	}
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// New makes an error of a kind; %w in format is honoured.
func New(kind Kind, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Offset: -1, Text: err.Error(), Err: hidden(errors.Unwrap(err))}
}

// hidden keeps a wrapped cause reachable by errors.Is and errors.As without
// printing it twice, since Text holds its words already.
func hidden(err error) error {
	if err == nil {
		return nil
	}
	return silent{err}
}

type silent struct{ error }

func (s silent) Error() string { return "" }
func (s silent) Unwrap() error { return s.error }

// Corruptf reports damaged bytes at an offset of an object that a caller
// names later with In. Offset -1 means unknown.
func Corruptf(offset int64, format string, args ...any) error {
	return &Error{Kind: Corrupt, Offset: offset, Text: fmt.Sprintf(format, args...)}
}

// At makes the offset of a corruption that has no object yet absolute: base
// plus the relative offset, or base itself when none is known.
func At(base int64, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Kind == Corrupt && e.Object == "" {
		placed := *e
		placed.Offset = base + max(e.Offset, 0)
		return &placed
	}
	return err
}

// In names the object of the innermost corruption in err that has none yet.
// Other errors pass unchanged.
func In(object string, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Kind == Corrupt && e.Object == "" {
		named := *e
		named.Object = object
		return &named
	}
	return err
}

// KindOf gives the kind of the outermost *Error in err, else Internal.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Recover turns a panic of the calling goroutine into an Internal error of a
// room; use it as defer fault.Recover("room", &err) in goroutines that decode
// bytes from outside, so that no input ends the process.
func Recover(room string, err *error) {
	if p := recover(); p != nil {
		*err = New(Internal, "%s: unexpected failure: %v", room, p)
	}
}
