package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/schema"
	"github.com/flightblob/flightblob/table/rowset"
)

// Decision is what a committer does about a transaction that was published
// first.
type Decision uint8

// The decisions, in ascending order of loss.
const (
	Rebase       Decision = iota // apply ours to the newest version as it is
	Retry                        // compute ours anew from the newest version
	Incompatible                 // give up: what ours was about is gone
)

// String names the decision.
func (d Decision) String() string { return [...]string{"rebase", "retry", "incompatible"}[d] }

// Verdict is the answer of Judge.
type Verdict struct {
	Decision Decision
	Reason   string // what ours lost to and why; "" for Rebase

	// Rows are fragments of which both transactions deleted rows, ascending. A
	// Rebase holds only if no row that ours deleted is deleted there already;
	// then ours goes on with the union, in deletion files of its own, based on
	// the newest version, and with fragments of which nothing is left among the
	// removed ones. A committer that does not know which rows it deleted
	// retries.
	Rows []uint64
}

// matrix is the conflict table of section 4.4: a row for our operation, a column
// for the one that was committed first. A dot is Rebase, R is Retry, X is
// Incompatible; words are conditions, see conditions. All words of a cell are
// asked, and the worst answer counts.
//
// Beyond the sheet stand the write-ahead log, overlays, clones and operations
// of newer writers (the last four columns).
const matrix = `
                  | Append Delete  Update       Overwrite CreateIndex Rewrite Merge Project      Restore Reserve Config DataRepl Bases | MemWal Overlay Clone Unknown
Append            | .      .       .            X         .           .       null  null         X       .       .      .        .     | X      X       .     X
Delete            | .      rows    rows         X         .           files   R     .            X       .       .      files    .     | X      X       .     X
Update            | keys   rows    rows,keys    X         .           files   R     dropped,null X       .       .      files    .     | X      X       .     X
Overwrite         | .      .       .            twice     .           .       .     .            .       .       config .        .     | X      X       .     X
CreateIndex       | .      .       indexed      X         index       files   indexed .          X       .       .      indexed  .     | X      X       .     X
Rewrite           | .      files   files        X         files       files   R     .            X       .       .      files    .     | X      X       .     X
Merge             | R      R       R            X         .           R       R     X            X       .       meta   R        .     | X      X       .     X
Project           | null   .       null         X         .           .       R     R            X       .       .      null     .     | X      X       .     X
Restore           | .      .       .            .         .           .       .     .            .       .       schema .        .     | X      X       .     X
ReserveFragments  | .      .       .            X         .           .       .     .            X       .       .      .        .     | .      X       .     X
UpdateConfig      | .      .       .            config    .           .       meta  .            schema  .       config .        .     | X      X       .     X
DataReplacement   | .      target  target       X         indexed     files   R     target       X       .       .      files    .     | X      X       .     X
UpdateBases       | .      .       .            .         .           .       .     .            .       .       .      .        bases | .      X       .     X
`

// columns are the operations of the matrix' columns.
var columns = [...]Kind{
	KindAppend, KindDelete, KindUpdate, KindOverwrite, KindCreateIndex, KindRewrite, KindMerge, KindProject, KindRestore,
	KindReserveFragments, KindUpdateConfig, KindDataReplacement, KindUpdateBases, KindUpdateMemWalState, KindDataOverlay,
	KindClone, kindEnd,
}

// conditions are the words of the matrix. Those of the sheet are given by its
// letters.
var conditions = map[string]func(ours, theirs Operation) Verdict{
	".": func(_, _ Operation) Verdict { return Verdict{} },
	"R": func(_, _ Operation) Verdict { return retry("both change the same part of the table") },
	"X": func(_, theirs Operation) Verdict { return lost("%s", whyLost(theirs.Kind())) },

	"null":    judgeNullability, // (n)
	"rows":    judgeRows,        // (f)
	"files":   judgeFiles,       // (o)
	"keys":    judgeKeys,        // (k)
	"dropped": judgeDropped,     // (d)
	"twice":   judgeTwice,       // (R)
	"config":  judgeConfig,      // (c)
	"meta":    judgeMerged,      // (m)
	"schema":  judgeSchema,      // (s)
	"index":   judgeIndex,       // (i), of two index changes
	"indexed": judgeIndexed,     // (p), and (i) of replaced columns
	"target":  judgeTarget,      // (g)
	"bases":   judgeBases,       // (b)
}

// cells is the matrix by the two operations.
var cells = parseMatrix()

func parseMatrix() map[[2]Kind][]string {
	out := map[[2]Kind][]string{}
	lines := strings.Split(strings.Trim(matrix, "\n"), "\n")[1:]
	for _, line := range lines {
		words := strings.Fields(strings.ReplaceAll(line, "|", " "))
		ours := KindAppend + Kind(slices.Index(kindNames[:], words[0]))
		for i, cell := range words[1:] {
			out[[2]Kind{ours, columns[i]}] = strings.Split(cell, ",")
		}
	}
	return out
}

// Judge says whether ours may still be committed after theirs, which somebody
// published on top of the version that ours was computed on. Ours is judged
// against each transaction in between; the worst decision counts, and the
// fragments of Rows add up.
func Judge(ours, theirs *Transaction) Verdict {
	worst := Verdict{}
	for _, word := range cellOf(ours.Op.Kind(), theirs.Op.Kind()) {
		v := conditions[word](ours.Op, theirs.Op)
		if v.Decision >= worst.Decision {
			v.Rows = append(worst.Rows, v.Rows...)
			worst = v
		}
	}
	if worst.Decision != Rebase {
		worst.Reason = fmt.Sprintf("the %s lost to a concurrent %s: %s", describe(ours.Op), describe(theirs.Op), worst.Reason)
		worst.Rows = nil
	}
	return worst
}

func describe(op Operation) string {
	if name := op.Kind().String(); name != "" {
		return name
	}
	return fmt.Sprintf("operation %d of a newer writer", op.Kind())
}

// cellOf finds a cell. A clone makes another table, so nothing is in its way;
// what has no row cannot be rebased.
func cellOf(ours, theirs Kind) []string {
	if ours == KindClone {
		return []string{"."}
	}
	if !theirs.known() {
		theirs = kindEnd
	}
	if cell, ok := cells[[2]Kind{ours, theirs}]; ok {
		return cell
	}
	return []string{"X"}
}

func whyLost(theirs Kind) string {
	switch theirs {
	case KindOverwrite, KindRestore:
		return "it replaced the content that ours is about"
	case KindProject:
		return "it changed the schema that ours brings along"
	}
	return "the two cannot be joined"
}

func retry(format string, args ...any) Verdict {
	return Verdict{Decision: Retry, Reason: fmt.Sprintf(format, args...)}
}

func lost(format string, args ...any) Verdict {
	return Verdict{Decision: Incompatible, Reason: fmt.Sprintf(format, args...)}
}

// judgeNullability retries rows against a schema under which they might be
// null where they must not, on either side.
func judgeNullability(ours, theirs Operation) Verdict {
	if mayTighten(ours) || mayTighten(theirs) {
		return retry("the schema may demand values that the rows staged beside it do not have")
	}
	return Verdict{}
}

func mayTighten(op Operation) bool {
	switch op := op.(type) {
	case *Merge:
		return !op.PreservesNullability
	case *Project:
		return !op.PreservesNullability
	}
	return false
}

// judgeRows compares what two deletes or updates did to the same fragments.
func judgeRows(ours, theirs Operation) Verdict {
	updated, removed := changedBy(ours)
	theirUpdated, theirRemoved := changedBy(theirs)
	v := Verdict{}
	for _, id := range slices.Sorted(maps.Keys(updated)) {
		f := updated[id]
		if theirRemoved[id] {
			return retry("it removed fragment %d", id)
		}
		other, common := theirUpdated[id]
		if !common {
			continue
		}
		if !sameFiles(f.Files, other.Files) {
			return retry("it changed the data files of fragment %d", id)
		}
		v.Rows = append(v.Rows, id)
	}
	for _, id := range slices.Sorted(maps.Keys(removed)) {
		if _, common := theirUpdated[id]; common || theirRemoved[id] {
			return retry("it changed rows of fragment %d, of which ours removes all", id)
		}
	}
	return v
}

// changedBy gives the fragments that a delete or update changes and removes.
func changedBy(op Operation) (updated map[uint64]*Fragment, removed map[uint64]bool) {
	var list []Fragment
	var gone []uint64
	switch op := op.(type) {
	case *Delete:
		list, gone = op.Updated, op.Deleted
	case *Update:
		list, gone = op.Updated, op.Removed
	}
	updated, removed = make(map[uint64]*Fragment, len(list)), make(map[uint64]bool, len(gone))
	for i := range list {
		updated[list[i].ID] = &list[i]
	}
	for _, id := range gone {
		removed[id] = true
	}
	return updated, removed
}

// judgeFiles retries when one side moves or replaces what the other touches in
// the same fragment. Two replacements may touch different fields of one.
func judgeFiles(ours, theirs Operation) Verdict {
	mine, all := touched(ours)
	others, allOthers := touched(theirs)
	if all || allOthers {
		return retry("an index does not say which fragments it covers")
	}
	_, twoReplacements := ours.(*DataReplacement)
	if r, ok := theirs.(*DataReplacement); ok && twoReplacements {
		return judgeReplaced(ours.(*DataReplacement), r)
	}
	for _, id := range slices.Sorted(maps.Keys(mine)) {
		if others[id] {
			return retry("both touch fragment %d", id)
		}
	}
	return Verdict{}
}

// touched gives the fragments that an operation depends on; all if it does not
// say.
func touched(op Operation) (ids map[uint64]bool, all bool) {
	ids = map[uint64]bool{}
	switch op := op.(type) {
	case *Delete, *Update:
		updated, removed := changedBy(op)
		maps.Copy(ids, removed)
		for id := range updated {
			ids[id] = true
		}
	case *Rewrite:
		for i := range op.Groups {
			for j := range op.Groups[i].Old {
				ids[op.Groups[i].Old[j].ID] = true
			}
		}
	case *DataReplacement:
		for i := range op.Replacements {
			ids[op.Replacements[i].FragmentID] = true
		}
	case *CreateIndex:
		entries, err := parseEntries(op.New)
		if err != nil {
			return ids, true
		}
		for i := range entries {
			if entries[i].pb.FragmentBitmap == nil {
				return ids, true
			}
			covered, err := rowset.DecodeDeletions(entries[i].pb.GetFragmentBitmap(), true, maxRows)
			if err != nil {
				return ids, true
			}
			for id := range covered.Offsets() {
				ids[id] = true
			}
		}
	}
	return ids, false
}

func judgeReplaced(ours, theirs *DataReplacement) Verdict {
	for i := range ours.Replacements {
		for j := range theirs.Replacements {
			a, b := &ours.Replacements[i], &theirs.Replacements[j]
			if a.FragmentID == b.FragmentID && overlap(a.File.Fields, b.File.Fields) {
				return retry("both replace the same column of fragment %d", a.FragmentID)
			}
		}
	}
	return Verdict{}
}

func overlap(a, b []schema.FieldID) bool {
	return slices.ContainsFunc(a, func(id schema.FieldID) bool { return id >= 0 && slices.Contains(b, id) })
}

// judgeKeys protects inserts that were checked against a key: rows that came
// meanwhile may have the same keys.
func judgeKeys(ours, theirs Operation) Verdict {
	mine := ours.(*Update).Inserted
	if mine == nil {
		return Verdict{}
	}
	other, ok := theirs.(*Update)
	if !ok {
		return retry("its rows may have keys that ours inserts")
	}
	if other.Inserted == nil {
		return retry("it does not say which keys it inserted")
	}
	if mine.mayShare(other.Inserted) {
		return retry("both may insert the same key")
	}
	return Verdict{}
}

// mayShare is true unless no key can be in both filters.
func (f *KeyFilter) mayShare(other *KeyFilter) bool {
	switch {
	case !slices.Equal(f.Fields, other.Fields):
		return true
	case f.Bloom == nil && other.Bloom == nil:
		mine := make(map[uint64]bool, len(f.Exact))
		for _, hash := range f.Exact {
			mine[hash] = true
		}
		return slices.ContainsFunc(other.Exact, func(hash uint64) bool { return mine[hash] })
	case f.Bloom == nil || other.Bloom == nil:
		return true
	}
	a, b := f.Bloom, other.Bloom
	if a.Bits != b.Bits || a.Items != b.Items || a.Probability != b.Probability || len(a.Bitmap) != len(b.Bitmap) {
		return true
	}
	for i := range a.Bitmap { // a common key has set the same bits in both
		if a.Bitmap[i]&b.Bitmap[i] != 0 {
			return true
		}
	}
	return false
}

// judgeDropped retries an update of a column that is gone.
func judgeDropped(ours, theirs Operation) Verdict {
	for _, id := range ours.(*Update).FieldsModified {
		if theirs.(*Project).Schema.ByID(id) == nil {
			return retry("it dropped field %d, which ours changes", id)
		}
	}
	return Verdict{}
}

// judgeTwice lets the user decide about the later one of two overwrites.
func judgeTwice(ours, theirs Operation) Verdict {
	if v := judgeConfig(ours, theirs); v.Decision != Rebase {
		return v
	}
	return retry("both overwrite the table")
}

// judgeConfig finds keys that both sides change. Schema and field metadata do
// not survive an overwrite at all.
func judgeConfig(ours, theirs Operation) Verdict {
	a, b := configOf(ours), configOf(theirs)
	if key, ok := a.Config.clashes(b.Config); ok {
		return lost("both change the configuration key %q", key)
	}
	if _, ok := theirs.(*Overwrite); ok && a.changesSchema() {
		return lost("it replaced the schema whose metadata ours changes")
	}
	if a.SchemaMetadata.changes() && b.SchemaMetadata.changes() {
		return lost("both change the metadata of the schema")
	}
	if key, ok := a.TableMetadata.shares(b.TableMetadata); ok {
		return lost("both change the table metadata %s", key)
	}
	for _, id := range slices.Sorted(maps.Keys(a.FieldMetadata)) {
		if _, ok := b.FieldMetadata[id]; ok {
			return lost("both change the metadata of field %d", id)
		}
	}
	return Verdict{}
}

// configOf gives the configuration that an operation changes.
func configOf(op Operation) *UpdateConfig {
	switch op := op.(type) {
	case *UpdateConfig:
		return op
	case *Overwrite:
		return &UpdateConfig{Config: &UpdateMap{Entries: entriesOf(op.ConfigUpserts)}}
	}
	return &UpdateConfig{}
}

func (u *UpdateMap) changes() bool { return u != nil && (u.Replace || len(u.Entries) > 0) }

// clashes finds a key that both changes name and not both remove.
func (u *UpdateMap) clashes(other *UpdateMap) (key string, ok bool) {
	if !u.changes() || !other.changes() {
		return "", false
	}
	for _, e := range u.Entries {
		if slices.ContainsFunc(other.Entries, func(o UpdateEntry) bool { return o.Key == e.Key && (o.Value != nil || e.Value != nil) }) {
			return e.Key, true
		}
	}
	return "", false
}

// shares finds a key that both changes touch; one that replaces a map touches
// all keys.
func (u *UpdateMap) shares(other *UpdateMap) (key string, ok bool) {
	if !u.changes() || !other.changes() {
		return "", false
	}
	if u.Replace || other.Replace {
		return "as a whole", true
	}
	for _, e := range u.Entries {
		if slices.ContainsFunc(other.Entries, func(o UpdateEntry) bool { return o.Key == e.Key }) {
			return fmt.Sprintf("key %q", e.Key), true
		}
	}
	return "", false
}

// changesSchema says that metadata of the schema or of a field changes.
func (op *UpdateConfig) changesSchema() bool {
	if op.SchemaMetadata.changes() {
		return true
	}
	for _, u := range op.FieldMetadata {
		if u.changes() {
			return true
		}
	}
	return false
}

// judgeMerged retries when one side holds the whole schema and the other
// changes its metadata.
func judgeMerged(ours, theirs Operation) Verdict {
	if configOf(ours).changesSchema() || configOf(theirs).changesSchema() {
		return retry("one changes the schema, the other its metadata")
	}
	return Verdict{}
}

// judgeSchema is the same beside a restore, where no retry helps.
func judgeSchema(ours, theirs Operation) Verdict {
	if configOf(ours).changesSchema() || configOf(theirs).changesSchema() {
		return lost("one restores a schema, the other changes metadata of it")
	}
	return Verdict{}
}

// judgeIndex compares two changes of the index section.
func judgeIndex(ours, theirs Operation) Verdict {
	a, errA := indexChange(ours.(*CreateIndex))
	b, errB := indexChange(theirs.(*CreateIndex))
	if errA != nil || errB != nil {
		return retry("an index entry cannot be understood")
	}
	for _, name := range slices.Sorted(maps.Keys(a.created)) {
		if b.created[name] {
			return retry("both create the index %q", name)
		}
		if b.removed[name] && !a.removed[name] {
			return retry("it removed parts of the index %q, to which ours adds", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.created)) {
		if a.removed[name] && !b.removed[name] {
			return retry("it added to the index %q, of which ours removes parts", name)
		}
	}
	for _, uuid := range slices.Sorted(maps.Keys(a.uuids)) {
		name := a.uuids[uuid]
		if other, ok := b.uuids[uuid]; ok && (a.created[name] || b.created[name] || a.created[other] || b.created[other]) {
			return retry("both replace the same part of the index %q", name)
		}
	}
	return Verdict{}
}

// indexNames is what an index change creates and removes.
type indexNames struct {
	created, removed map[string]bool
	uuids            map[string]string // of what it removes, with names
}

func indexChange(op *CreateIndex) (indexNames, error) {
	n := indexNames{map[string]bool{}, map[string]bool{}, map[string]string{}}
	created, err := parseEntries(op.New)
	if err != nil {
		return n, err
	}
	removed, err := parseEntries(op.Removed)
	if err != nil {
		return n, err
	}
	for i := range created {
		n.created[created[i].pb.GetName()] = true
	}
	for i := range removed {
		n.removed[removed[i].pb.GetName()] = true
		n.uuids[string(removed[i].pb.GetUuid())] = removed[i].pb.GetName()
	}
	return n, nil
}

// judgeIndexed retries when an index was made of columns that were rewritten in
// place beside it. The reference narrows the new index instead when an update
// or a merge did that; an index that is made anew is as right.
func judgeIndexed(ours, theirs Operation) Verdict {
	index, other := ours, theirs
	if _, ok := ours.(*CreateIndex); !ok {
		index, other = theirs, ours
	}
	entries, err := parseEntries(index.(*CreateIndex).New)
	if err != nil {
		return retry("an index entry cannot be understood")
	}
	fields := rewrittenBy(other)
	for i := range entries {
		if entries[i].system() {
			if _, ok := other.(*Merge); ok {
				return retry("the entry %s depends on the schema", entries[i].pb.GetName())
			}
			continue
		}
		if len(entries[i].pb.GetFields()) > 0 && entries[i].on(fields) {
			return retry("a column of the index %q was rewritten", entries[i].pb.GetName())
		}
	}
	return Verdict{}
}

// rewrittenBy gives the fields whose values an operation may have rewritten in
// place, nil for any.
func rewrittenBy(op Operation) []schema.FieldID {
	fields := []schema.FieldID{}
	switch op := op.(type) {
	case *Update:
		fields = append(fields, op.FieldsModified...)
	case *DataReplacement:
		for i := range op.Replacements {
			fields = append(fields, op.Replacements[i].File.Fields...)
		}
	case *Merge:
		return nil
	}
	return fields
}

// judgeTarget looks after the fragment and fields that ours replaces.
func judgeTarget(ours, theirs Operation) Verdict {
	for i := range ours.(*DataReplacement).Replacements {
		r := &ours.(*DataReplacement).Replacements[i]
		if p, ok := theirs.(*Project); ok {
			for _, id := range r.File.Fields {
				if id >= 0 && p.Schema.ByID(id) == nil {
					return lost("it dropped field %d, which ours replaces", id)
				}
			}
			if mayTighten(p) {
				return judgeNullability(ours, theirs)
			}
			continue
		}
		updated, removed := changedBy(theirs)
		if removed[r.FragmentID] {
			return lost("it removed fragment %d, of which ours replaces a column", r.FragmentID)
		}
		u, ok := theirs.(*Update)
		if _, common := updated[r.FragmentID]; !ok || !common {
			continue
		}
		if len(u.New) > 0 && u.Mode == RewriteRows || overlap(r.File.Fields, u.FieldsModified) {
			return retry("it changed rows of fragment %d that ours has values for", r.FragmentID)
		}
	}
	return Verdict{}
}

// judgeBases finds an id, name or path that both sides register.
func judgeBases(ours, theirs Operation) Verdict {
	for _, a := range ours.(*UpdateBases).Bases {
		for _, b := range theirs.(*UpdateBases).Bases {
			switch {
			case a.ID != 0 && a.ID == b.ID:
				return lost("both register base id %d", a.ID)
			case a.Name != "" && a.Name == b.Name:
				return lost("both register a base named %q", a.Name)
			case a.Path == b.Path:
				return lost("both register the base %s", a.Path)
			}
		}
	}
	return Verdict{}
}
