package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/flightblob/flightblob/internal/fault"
)

// kinds classes the engine's errors by the words that their texts begin with.
var kinds = []struct {
	prefix string
	kind   fault.Kind
}{
	{"Catalog Error: Table with name", fault.NotFound},
	{"Catalog Error: Schema with name", fault.NotFound},
	{"Binder Error: Catalog \"", fault.NotFound},
	{"Out of Memory Error", fault.Exhausted},
	{"Object Size Error", fault.Exhausted},
	{"Out of Range Error: Cannot resize vector", fault.Exhausted},
	{"Out of Range Error: Cannot create a string of size", fault.Exhausted},
	{"Invalid Input Error: Lists larger than", fault.Exhausted},
	{"Permission Error", fault.Denied},
	{"IO Error", fault.Internal},
	{"INTERNAL Error", fault.Internal},
	{"FATAL Error", fault.Internal},
	{"Not implemented Error", fault.Unsupported},
}

// Placed is an error about one place in the text of a statement.
type Placed struct {
	Offset int // byte of the text
	Err    error
}

// Error is the text of the error alone.
func (p *Placed) Error() string { return p.Err.Error() }

// Unwrap gives the error.
func (p *Placed) Unwrap() error { return p.Err }

// told is the engine's error as it is set to write it.
type told struct {
	Type     string `json:"exception_type"`
	Message  string `json:"exception_message"`
	Position string `json:"position"`
}

// read takes an error of the engine apart: its text, and the place in the
// statement that it is about, -1 if in none.
func read(text string) (string, int) {
	var t told
	at := strings.IndexByte(text, '{')
	if at < 0 || json.Unmarshal([]byte(text[at:]), &t) != nil || t.Message == "" {
		return text, -1
	}
	// Parser errors have their type in front.
	if text = text[:at] + t.Message; at == 0 {
		text = t.Type + " Error: " + t.Message
		if strings.HasSuffix(t.Type, "Error") {
			text = t.Type + ": " + t.Message
		}
	}
	if offset, err := strconv.Atoi(t.Position); err == nil && offset >= 0 {
		return text, offset
	}
	return text, -1
}

// Interrupted is the text that the engine gives for an interrupted statement.
const interrupted = "INTERRUPT Error"

// classify makes the engine's error text one of this program: its kind, and a
// text without stacks and places of this machine; *Placed where it has a place.
func (db *DB) classify(text string) error {
	text, offset := read(text)
	err := db.kindOf(text)
	if offset >= 0 {
		return &Placed{offset, err}
	}
	return err
}

func (db *DB) kindOf(text string) error {
	kind := fault.Invalid
	for _, k := range kinds {
		if strings.HasPrefix(text, k.prefix) {
			kind = k.kind
			break
		}
	}
	// What functions of this program said reaches the engine as a text.
	for _, wrapper := range []string{"Invalid Input Error: ", "Binder Error: ", "Conversion Error: "} {
		if rest, ok := strings.CutPrefix(text, wrapper+mark); ok {
			return fault.New(fault.Invalid, "%s", rest)
		}
	}
	for _, end := range []string{"\nStack Trace", "\n\nStack Trace", "\nThis error signals an assertion failure"} {
		if i := strings.Index(text, end); i >= 0 {
			text = text[:i]
		}
	}
	if db.spill != "" {
		text = strings.ReplaceAll(text, db.spill, "the spill folder")
	}
	if kind == fault.Exhausted {
		text = db.exhausted(strings.TrimSpace(strings.SplitN(text, "\n", 2)[0]))
	}
	return fault.New(kind, "%s", strings.TrimSpace(strings.ReplaceAll(text, mark, "")))
}

// refusal finds the engine's words for a piece of memory that was refused.
var refusal = regexp.MustCompile(`(?:Failed to (?:re-)?allocate block of (\d+) bytes \(bad allocation\)|Allocation failure)$`)

// pieces is what is said of many small pieces.
const pieces = "the statement holds too much that cannot be spilled, as the states of some aggregates"

// exhausted says what to do about an error for want of memory or space.
func (db *DB) exhausted(text string) string {
	used := fmt.Sprintf("--sql-memory, which is %d MiB", db.memory>>20)
	if m := refusal.FindStringSubmatch(text); m != nil {
		text = "Out of Memory Error: a step of the statement needs more memory than is left"
		if n, err := strconv.ParseInt(m[1], 10, 64); err == nil && n >= 1<<20 {
			text += fmt.Sprintf(": %d MiB at once", n>>20)
		}
		return text + "; make smaller values with functions such as range, repeat and lpad, or fewer of them at a time, or raise " + used
	}
	text = strings.TrimSuffix(text, ".")
	switch {
	case strings.Contains(text, "failed to offload"):
		return text + "; the spill folder has no more room for it: take fewer rows or columns at a time, or raise --sql-spill-bytes or " + used
	case db.spill == "" && !strings.HasSuffix(text, pieces):
		return text + "; take fewer rows or columns at a time, or give a folder with --sql-spill, or raise " + used
	}
	return text + "; take fewer rows or columns at a time, or raise " + used
}

// mark begins texts that this program hands to the engine as an error, so that
// they are recognised when they come back.
const mark = "flightblob: "

// failure gives the error of a statement: the context's if it has ended, else
// the engine's.
func (c *Conn) failure(ctx context.Context, text string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if message, _ := read(text); strings.HasPrefix(message, interrupted) {
		if c.over.Load() {
			return c.db.kindOf("Out of Memory Error: " + pieces)
		}
		return context.Canceled
	}
	return c.db.classify(text)
}

// watch interrupts the connection when ctx ends, again and again, since an
// interrupt between two calls is forgotten by the engine. The returned function
// stops watching and waits until no interrupt is under way.
func (c *Conn) watch(ctx context.Context) func() {
	leave := c.db.sentinel.enter(c)
	if ctx.Done() == nil {
		return leave
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-stop:
			return
		case <-ctx.Done():
		}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			c.interrupt()
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(stop); <-done; leave() }
}
