package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/flightblob/flightblob/query/statement"
)

// shellHelp is what .help prints.
const shellHelp = `.help          this list
.mode          how rows are printed; .mode table, json, csv or arrow changes it
.tables        names of all tables
.quit          leaves, as Ctrl-D and \q do

A statement ends with a semicolon and may take several lines. One that begins
with a blank is not kept in the history.
Ctrl-C         stops the statement that runs, drops the one that is typed
Up, Down       earlier statements that begin with what stands before the cursor
Ctrl-R         searches them
`

// command carries out a line that begins with a dot.
func (s *shell) command(ctx context.Context, text string) (leave bool, err error) {
	words := strings.Fields(strings.TrimRight(text, ";"))
	switch words[0] {
	case ".quit", ".exit":
		return true, nil
	case ".help":
		_, err := io.WriteString(s.out, shellHelp)
		return false, err
	case ".tables":
		return false, s.execute(ctx, tablesQuery)
	case ".mode":
		return false, s.mode(words[1:])
	}
	return false, usagef("unknown command %s; .help lists them", statement.Quote(words[0]))
}

// tablesQuery gives the names of all tables as SQL writes them from anywhere.
const tablesQuery = `SELECT table_catalog AS catalog, table_schema AS schema, table_name AS "table"
FROM information_schema.tables ORDER BY ALL`

// mode shows or changes the format.
func (s *shell) mode(words []string) error {
	switch len(words) {
	case 0:
		fmt.Fprintln(s.out, s.settings.format)
		return nil
	case 1:
		was := *s.settings
		s.settings.format = words[0]
		err := s.settings.choose(s.runner)
		if err != nil {
			*s.settings = was
		}
		return err
	}
	return usagef(".mode takes one of table, json, csv and arrow")
}
