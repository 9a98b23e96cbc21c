// Package operation is the one list of what is done to tables by name.
//
//	CALL create_tag('t', 'x', version := 3)      query
//	DoAction create_tag {"table":"t","tag":"x"}   flightsvc
//	flightblob tag create t x --version 3         cmd/flightblob
//
// All three find an Operation here, give it values by the names of its parameters
// and show its Answer in their own form: a row, a JSON object, lines. What an
// operation does is written elsewhere, in table and table/maintain; an entry says
// what it is called, what it takes and what it answers.
package operation
