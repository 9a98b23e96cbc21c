package flightsvc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

// object reads a JSON object whose keys are all known. Methods take keys out
// and keep the first error; finish gives it, or names what is left over. A
// key's value must have exactly the right type: null is none.
type object struct {
	what   string // for messages: "ticket", "describe"
	fields map[string]json.RawMessage
	keys   []string // as sent
	known  map[string]bool
	err    error
}

// parseObject splits an object into its keys. Twice the same key, text after
// the object and invalid UTF-8 are fault.Invalid.
func parseObject(what string, b []byte) (*object, error) {
	if !utf8.Valid(b) {
		return nil, fault.New(fault.Invalid, "%s: the JSON is not valid UTF-8", what)
	}
	o := &object{what: what, fields: map[string]json.RawMessage{}, known: map[string]bool{}}
	d := json.NewDecoder(bytes.NewReader(b))
	bad := func(err error) (*object, error) {
		return nil, fault.New(fault.Invalid, "%s: not a JSON object: %v", what, err)
	}
	if t, err := d.Token(); err != nil {
		return bad(err)
	} else if t != json.Delim('{') {
		return bad(fmt.Errorf("it is %s", shorten(string(bytes.TrimSpace(b)), 60)))
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return bad(err)
		}
		key, _ := t.(string)
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return bad(err)
		}
		if _, twice := o.fields[key]; twice {
			return nil, fault.New(fault.Invalid, "%s: %s is given twice", what, quote(key))
		}
		o.fields[key] = raw
		o.keys = append(o.keys, key)
	}
	if _, err := d.Token(); err != nil {
		return bad(err)
	}
	if d.More() {
		return bad(fmt.Errorf("something follows it at byte %d", d.InputOffset()))
	}
	return o, nil
}

func (o *object) has(key string) bool {
	o.known[key] = true
	_, ok := o.fields[key]
	return ok
}

func (o *object) fail(format string, args ...any) {
	if o.err == nil {
		o.err = fault.New(fault.Invalid, o.what+": "+format, args...)
	}
}

// decode unpacks a key's value, if it is there, and says whether it was.
func (o *object) decode(key, want string, into any) bool {
	if !o.has(key) {
		return false
	}
	raw := o.fields[key]
	if string(raw) == "null" || json.Unmarshal(raw, into) != nil {
		o.fail("%s is %s, it must be %s", key, shorten(string(raw), 60), want)
		return false
	}
	return true
}

// string reads a string that is not empty.
func (o *object) string(key string, into *string) {
	if o.decode(key, "a string", into) && *into == "" {
		o.fail("%s is empty; leave it out instead", key)
	}
}

// strings reads a list of strings, not empty, none of which is empty.
func (o *object) strings(key string, into *[]string) {
	if !o.decode(key, "a list of strings", into) {
		return
	}
	if len(*into) == 0 {
		o.fail("%s is an empty list; leave it out for all", key)
	}
	if slices.Contains(*into, "") || o.holdsNull(key) {
		o.fail("%s holds an empty name", key)
	}
}

// holdsNull finds null in a list, which decodes as a zero value.
func (o *object) holdsNull(key string) bool {
	var items []json.RawMessage
	return json.Unmarshal(o.fields[key], &items) == nil &&
		slices.ContainsFunc(items, func(r json.RawMessage) bool { return string(r) == "null" })
}

const wantCount = "a whole number from 0 on"

func (o *object) uint(key string, into *uint64) { o.decode(key, wantCount, into) }

// size reads a number of bytes.
func (o *object) size(key string, into *int64) {
	var n uint64
	o.uint(key, &n)
	*into = int64(min(n, math.MaxInt64))
}

func (o *object) positions(key string, into *[]uint64) {
	if o.decode(key, "a list of whole numbers from 0 on", into) && o.holdsNull(key) {
		o.fail("%s holds null", key)
	}
}

// ranges reads [[row, offset, length], …].
func (o *object) ranges(key string, into *[]Range) {
	const want = "a list of [row, offset, length], whole numbers from 0 on"
	var items [][]*uint64
	if !o.decode(key, want, &items) {
		return
	}
	*into = make([]Range, len(items))
	for i, item := range items {
		if len(item) != 3 || slices.Contains(item, nil) {
			o.fail("%s, entry %d is not [row, offset, length]", key, i)
			return
		}
		(*into)[i] = Range{Row: *item[0], Offset: *item[1], Length: *item[2]}
	}
}

// name reads the keys that name a table. Schema and catalog have defaults, each
// for itself.
func (o *object) name(into *catalog.Name) {
	switch {
	case !o.has("table"):
		o.fail("table is missing")
	case string(o.fields["table"]) == `""`:
		o.fail("table is empty")
	}
	o.string("table", &into.Table)
	o.string("schema", &into.Schema)
	o.string("catalog", &into.Catalog)
}

// ref reads the keys that choose a version.
func (o *object) ref(into *table.Ref) {
	o.uint("version", &into.Version)
	if o.has("version") && into.Version == 0 {
		o.fail("version is 0; versions count from 1")
	}
	o.string("tag", &into.Tag)
	o.string("branch", &into.Branch)
	var at string
	o.string("timestamp", &at)
	if at != "" {
		t, err := parseTime(at)
		if err != nil {
			o.fail("timestamp %s is not an ISO 8601 time such as 2026-01-31T12:00:00Z", quote(at))
		}
		into.Timestamp = t
	}
	o.exclude("tag", "version", "branch", "timestamp")
	o.exclude("timestamp", "version", "branch")
}

// timeLayouts are the forms of ISO 8601 that are taken; without a zone, UTC.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02",
}

func parseTime(s string) (time.Time, error) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, strconv.ErrSyntax
}

// exclude refuses key beside any of the others.
func (o *object) exclude(key string, others ...string) {
	if !o.has(key) {
		return
	}
	for _, other := range others {
		if o.has(other) {
			o.fail("%s and %s cannot be given together", key, other)
		}
	}
}

// together refuses one of two keys without the other.
func (o *object) together(a, b string) {
	switch hasA, hasB := o.has(a), o.has(b); {
	case hasA && !hasB:
		o.fail("%s is given without %s", a, b)
	case hasB && !hasA:
		o.fail("%s is given without %s", b, a)
	}
}

// finish gives the first error, an unknown key before all others.
func (o *object) finish() error {
	for _, key := range o.keys {
		if o.known[key] {
			continue
		}
		var known []string
		for k := range o.known {
			known = append(known, k)
		}
		slices.Sort(known)
		return fault.New(fault.Invalid, "%s: unknown key %s; known are %s", o.what, quote(key), strings.Join(known, ", "))
	}
	return o.err
}

// quote prints a foreign string, shortened.
func quote(s string) string { return strconv.Quote(shorten(s, 100)) }

// shorten cuts a string at a rune border.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
