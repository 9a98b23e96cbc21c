package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/flightsvc"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

// inspection is everything that inspect prints. Its JSON form is stable.
type inspection struct {
	*flightsvc.Description
	Root     string                 `json:"root"`
	Versions []versionInfo          `json:"versions"`
	Tags     []tagInfo              `json:"tags"`
	Branches []branchInfo           `json:"branches"`
	Kinds    map[string][]kindCount `json:"blob_kinds"` // by column
}

type versionInfo struct {
	Version   uint64    `json:"version"`
	Committed time.Time `json:"committed"`
	Operation string    `json:"operation,omitempty"`
	Rows      uint64    `json:"rows"`
	Deleted   uint64    `json:"deleted_rows"`
	Fragments int       `json:"fragments"`
	Files     int       `json:"data_files"`
}

type tagInfo struct {
	Name    string `json:"name"`
	Version uint64 `json:"version"`
	Branch  string `json:"branch,omitempty"`
}

type branchInfo struct {
	Name          string `json:"name"`
	ParentBranch  string `json:"parent_branch,omitempty"`
	ParentVersion uint64 `json:"parent_version"`
}

// printIndented prints a value for people and programs.
func printIndented(to io.Writer, value any) error {
	enc := json.NewEncoder(to)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

func inspectCommand() *cobra.Command {
	var (
		p      places
		logs   logging
		ref    table.Ref
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "inspect TABLE",
		Short: "Shows what a table's manifest says and what kinds of blobs it holds",
		Long: `Shows a table: manifest, schema, versions, tags, branches, registered bases,
indexes, fragments, feature flags, and for each blob column its thresholds and how many
values and bytes there are of each kind. Payload is not read.

TABLE is a name below --root (t, schema.t, catalog.schema.t) or a path or URI.`,
		Example: `  flightblob inspect media
  flightblob inspect ./warehouse/media.lance --json
  flightblob inspect media --version 1`,
		Args: oneArg("TABLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := logs.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			h, err := openHouse(cmd.Context(), &p, log)
			if err != nil {
				return err
			}
			in, err := inspect(cmd.Context(), h, args[0], ref)
			if cerr := h.close(); err == nil {
				err = cerr
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printIndented(cmd.OutOrStdout(), in)
			}
			return in.print(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	p.flags(f, []string{"*"})
	f.Uint64Var(&ref.Version, "version", 0, "look at version `N` instead of the newest")
	f.StringVar(&ref.Tag, "tag", "", "look at the version of a tag")
	f.StringVar(&ref.Branch, "branch", "", "look at a branch")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	logs.flags(f)
	return cmd
}

// findTable opens TABLE: a path or URI, or a name below a root.
func (h *house) findTable(ctx context.Context, arg string) (*table.Table, error) {
	t, _, err := h.findNamed(ctx, arg)
	return t, err
}

// findNamed opens TABLE and answers its name too, the zero value for one that is
// given by its place.
func (h *house) findNamed(ctx context.Context, arg string) (*table.Table, catalog.Name, error) {
	if strings.Contains(arg, "/") || strings.HasSuffix(arg, ".lance") {
		if !strings.HasSuffix(arg, "://") {
			arg = strings.TrimSuffix(arg, "/")
		}
		loc, err := h.env.Locate(ctx, arg)
		if err != nil {
			return nil, catalog.Name{}, err
		}
		t, err := table.Open(ctx, h.env, loc)
		return t, catalog.Name{}, err
	}
	// A table's own name may hold dots, so the whole is tried first.
	name := catalog.Name{Table: arg}
	t, err := h.catalog.Table(ctx, name)
	path := strings.Split(arg, ".")
	if err == nil || fault.KindOf(err) != fault.NotFound || len(path) == 1 {
		return t, name, err
	}
	name, rerr := h.catalog.Resolve(path)
	if rerr != nil {
		return nil, name, err
	}
	t, err = h.catalog.Table(ctx, name)
	return t, name, err
}

// newPlace is the place of a table that does not exist yet, by a path or URI.
func (h *house) newPlace(ctx context.Context, arg string) (*table.Table, error) {
	loc, err := h.env.Locate(ctx, strings.TrimSuffix(arg, "/"))
	if err != nil {
		return nil, err
	}
	return table.New(h.env, loc, ""), nil
}

func inspect(ctx context.Context, h *house, arg string, ref table.Ref) (*inspection, error) {
	t, err := h.findTable(ctx, arg)
	if err != nil {
		return nil, err
	}
	snap, err := t.At(ctx, ref)
	if err != nil {
		return nil, err
	}
	d, err := flightsvc.Describe(snap, len(snap.Manifest().Fragments))
	if err != nil {
		return nil, err
	}
	in := &inspection{
		Description: d, Root: t.Root().String(),
		Versions: []versionInfo{}, Tags: []tagInfo{}, Branches: []branchInfo{},
	}
	versions, err := t.Versions(ctx, ref.Branch)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		in.Versions = append(in.Versions, versionInfo{
			Version: v.Version, Committed: v.Timestamp, Operation: v.Operation,
			Rows: v.Rows, Deleted: v.DeletedRows, Fragments: v.Fragments, Files: v.DataFiles,
		})
	}
	tags, err := t.Tags(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range tags {
		in.Tags = append(in.Tags, tagInfo{Name: v.Name, Version: v.Version, Branch: v.Branch})
	}
	branches, err := t.Branches(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range branches {
		in.Branches = append(in.Branches, branchInfo{Name: v.Name, ParentBranch: v.ParentBranch, ParentVersion: v.ParentVersion})
	}
	in.Kinds, err = countKinds(ctx, snap)
	return in, err
}

// print writes the inspection for people.
func (in *inspection) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	or := func(s, none string) string {
		if s == "" {
			return none
		}
		return s
	}
	line("table\t%s", in.Table)
	line("root\t%s", in.Root)
	line("version\t%d, %s by %s, %s", in.Version, or(in.Operation, "written"), or(in.Writer, "an unknown writer"), in.Committed.Format(time.RFC3339))
	if in.Branch != "" {
		line("branch\t%s", in.Branch)
	}
	line("rows\t%d, and %d deleted", in.Rows, in.DeletedRows)
	line("file version\t%s", in.FileVersion)
	line("reader flags\t%s", or(strings.Join(in.ReaderFlags, ", "), "none"))
	line("writer flags\t%s", or(strings.Join(in.WriterFlags, ", "), "none"))
	line("\nCOLUMNS")
	for _, c := range strings.Split(strings.TrimSuffix(in.Schema, "\n"), "\n") {
		name, typ, _ := strings.Cut(c, ": ")
		line("%s\t%s", name, typ)
	}
	if len(in.Blobs) > 0 {
		line("\nBLOB COLUMN\tINLINE UP TO\tDEDICATED FROM ABOVE\tPACKS OF")
		for _, b := range in.Blobs {
			line("%s\t%d\t%d\t%d", b.Column, b.Inline, b.Dedicated, b.Pack)
		}
		line("\nBLOB COLUMN\tKIND\tVALUES\tBYTES")
		for _, b := range in.Blobs {
			for _, k := range in.Kinds[b.Column] {
				bytes := fmt.Sprint(k.Bytes)
				if k.Whole > 0 {
					bytes += fmt.Sprintf(", and unrecorded lengths of %d", k.Whole)
				}
				line("%s\t%s\t%d\t%s", b.Column, k.Kind, k.Values, bytes)
			}
		}
	}
	line("\nVERSION\tCOMMITTED\tOPERATION\tROWS\tFRAGMENTS\tDATA FILES")
	for _, v := range slices.Backward(in.Versions) {
		line("%d\t%s\t%s\t%d\t%d\t%d", v.Version, v.Committed.Format(time.RFC3339), or(v.Operation, "-"), v.Rows, v.Fragments, v.Files)
	}
	for i, t := range in.Tags {
		if i == 0 {
			line("\nTAG\tVERSION\tBRANCH")
		}
		line("%s\t%d\t%s", t.Name, t.Version, or(t.Branch, "main"))
	}
	for i, b := range in.Branches {
		if i == 0 {
			line("\nBRANCH\tFROM\tVERSION")
		}
		line("%s\t%s\t%d", b.Name, or(b.ParentBranch, "main"), b.ParentVersion)
	}
	for i, b := range in.Bases {
		if i == 0 {
			line("\nBASE\tNAME\tDATASET ROOT\tPATH")
		}
		line("%d\t%s\t%t\t%s", b.ID, or(b.Name, "-"), b.DatasetRoot, b.Path)
	}
	for i, x := range in.Indexes {
		if i == 0 {
			line("\nINDEX\tTYPE\tCOLUMNS\tFRAGMENTS\tROWS\tUSED")
		}
		line("%s\t%s\t%s\t%d\t%d\t%t", x.Name, or(x.Type, "-"), or(strings.Join(x.Columns, ", "), "-"), x.Fragments, x.Rows, x.Used)
	}
	line("\nFRAGMENT\tROWS\tDELETED\tDATA FILE\tBASE\tFORMAT\tBYTES")
	for _, f := range in.Fragments {
		for _, d := range f.Files {
			base := "-"
			if d.Base != nil {
				base = fmt.Sprint(*d.Base)
			}
			line("%d\t%d\t%d\t%s\t%s\t%s\t%d", f.ID, f.Rows, f.DeletedRows, d.Path, base, d.Version, d.Bytes)
		}
	}
	return w.Flush()
}
