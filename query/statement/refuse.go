package statement

import "strings"

// commits is the advice for transaction words.
const commits = "each statement commits by itself; send the statements alone, or gather the changes in one MERGE"

// refused says what to do instead of statements outside the allow-list, by
// first word.
var refused = map[string]string{
	"begin": commits, "start": commits, "commit": commits, "end": commits, "rollback": commits, "abort": commits,
	"savepoint": commits, "release": commits,

	"copy":       "read with SELECT and write with DoPut, or use the commands flightblob import and export",
	"export":     "use the command flightblob export",
	"import":     "use the command flightblob import",
	"attach":     "catalogs are the server's roots; start it with --root NAME=URI",
	"detach":     "catalogs are the server's roots; start it without that --root",
	"use":        "name the catalog and schema in front of the table",
	"set":        "settings of a table are changed by ALTER TABLE t SET (…), those of a session by the protocol's session options",
	"reset":      "settings of a table are changed by ALTER TABLE t SET (…), those of a session by the protocol's session options",
	"pragma":     "use SHOW TABLES, DESCRIBE or information_schema",
	"install":    "extensions are not loaded here",
	"load":       "extensions are not loaded here",
	"prepare":    "use the protocol's prepared statements",
	"execute":    "use the protocol's prepared statements",
	"deallocate": "use the protocol's prepared statements",
	"vacuum":     "use CALL compact('t') and CALL cleanup('t')",
	"checkpoint": "every statement is durable when it returns",
	"force":      "every statement is durable when it returns",
	"analyze":    "tables keep no statistics that need it",
	"analyse":    "tables keep no statistics that need it",
	"comment":    "tables keep no comments",
	"grant":      "access is set by the server's flags",
	"revoke":     "access is set by the server's flags",
	"replace":    "use INSERT INTO, or MERGE INTO to replace rows by key",
	"upsert":     "use MERGE INTO",
	"optimize":   "use CALL compact('t')",
	"summarize":  "name the columns in a SELECT, such as SELECT count(x), min(x), max(x) FROM t",
}

// accepted lists the allow-list for messages.
const accepted = "SELECT, SHOW TABLES, DESCRIBE, EXPLAIN, INSERT, UPDATE, DELETE, TRUNCATE, MERGE, " +
	"CREATE TABLE, CREATE SCHEMA, DROP TABLE, DROP SCHEMA, ALTER TABLE and CALL"

// refuse names the statement at token i that is not on the allow-list.
func (c *cursor) refuse(i int) error {
	i = c.inside(i)
	if i >= c.end || c.toks[i].kind != tokWord {
		return c.expected(i, "a statement")
	}
	word := lowerWord(c.str(i))
	if advice, ok := refused[word]; ok {
		return c.errorAt(i, "%s is refused: %s", strings.ToUpper(word), advice)
	}
	return c.errorAt(i, "%s is not a statement of this server; it takes %s", shown(c.str(i)), accepted)
}
