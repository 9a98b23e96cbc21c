// Package statement says what one SQL statement is and where its parts lie:
// kind, target, clause borders, parameters, AT clauses, settings. Text in,
// spans of that text out; no I/O, no engine, nothing is executed.
//
// It knows DuckDB's lexical rules (1.5.6: all string forms, quoted names,
// nested comments, parameters, operators) and on top of them only the outline
// of the statements on its allow-list. It slices text and never looks into an
// expression beyond matched brackets and the keywords outside them, so every
// slice can be proved afterwards by the engine parsing SELECT slice. Whatever
// it does not recognise is refused by name with advice.
//
// Order of calls: Parse first, then the engine's own parser on Statement.Text.
// The engine's parser is not harmless on refused text: PRAGMA and IMPORT
// DATABASE act while they are being parsed.
//
// Invariants, fuzzed: no input panics or recurses deeper than a fixed bound;
// every span lies within Statement.Text on character borders; clause spans of
// one statement do not overlap, and parts lie within their clause.
package statement
