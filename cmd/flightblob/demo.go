package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// demoTable is the demo table as pylance wrote it; tools/make_demo_table.py
// makes it anew.
//
//go:embed all:demo
var demoTable embed.FS

const demoName = "media"

func demoCommand() *cobra.Command {
	var s serving
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serves a small table of pictures and sounds",
		Long: `Puts a small table of pictures and sounds, "media", into the root if it is not
there, serves the root, and prints a client to paste.`,
		Example: `  flightblob demo
  flightblob demo --root /tmp/tables --listen 127.0.0.1:0`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.run(cmd, hooks{
				prepare: prepareDemo,
				ready:   func(uri string) { fmt.Fprintf(cmd.ErrOrStderr(), demoClient, uri) },
			})
		},
	}
	s.flags(cmd.Flags())
	return cmd
}

// demoClient is printed beside the logs, so that stdout stays one line.
const demoClient = `
The table "media" holds twelve pictures and four sounds, drawn and played by
code. Paste this into Python (pyarrow is all it needs) to save the first one:

import pyarrow.flight as fl
client = fl.connect("%s")
ticket = fl.Ticket(b'{"table":"media","rows":[0]}')
row = client.do_get(ticket).read_all().to_pylist()[0]
with open(row["name"] + ".png", "wb") as f:
    f.write(row["data"])
print("saved", f.name, row["width"], "x", row["height"])

`

// prepareDemo puts the demo table into the first root, which it makes if it is
// absent.
func prepareDemo(h *house) error {
	root, local, err := h.localRoot(h.catalog.Catalogs()[0])
	if err != nil {
		return err
	}
	if !local {
		return usagef("demo: the first root must be a local folder, not %s", root)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return fmt.Errorf("demo: make the root: %w", err)
	}
	return unpackDemo(root)
}

// unpackDemo puts the demo table into a folder unless something of its name is
// there. It appears there whole or not at all.
func unpackDemo(root string) (err error) {
	folder := demoName + ".lance"
	target := filepath.Join(root, folder)
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	source, err := fs.Sub(demoTable, "demo/"+folder)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	scratch, err := os.MkdirTemp(root, ".demo-*")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	made := filepath.Join(scratch, folder)
	if err := os.CopyFS(made, source); err != nil {
		return fmt.Errorf("demo: unpack the table: %w", err)
	}
	if err := os.Rename(made, target); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}
