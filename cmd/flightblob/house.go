package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/objstore/cloud"
	"github.com/flightblob/flightblob/table"
	"github.com/flightblob/flightblob/table/maintain"
)

// defaultRoot is where tables lie if nothing else is said. Commands that serve
// make it when it is absent.
const defaultRoot = "./warehouse"

// places are the settings that say where tables are and what may be touched.
type places struct {
	roots    []string
	external []string
	storage  string
}

func (p *places) flags(f *pflag.FlagSet, external []string) {
	f.StringArrayVar(&p.roots, "root", []string{defaultRoot}, "where tables lie, `[NAME=]URI`: a path, file://, s3://, gs://, az:// or mem://; repeatable with names")
	f.StringArrayVar(&p.external, "external", external, "path or URI `PREFIX` that External values may be read from, besides roots and registered bases; * for everything; repeatable")
	f.StringVar(&p.storage, "storage", "", "TOML `FILE` with endpoints, regions and credentials per URI prefix")
}

// house is what all commands work in: the tables and the way to their bytes.
type house struct {
	registry *objstore.Registry
	counter  *objstore.Counter
	env      *table.Env
	catalog  *catalog.Catalog
}

// rangesKept is how many ranges describe can show of each object: enough to see
// how it is read.
const rangesKept = 16

// openHouse checks the settings and opens the roots. It reads no table.
func openHouse(ctx context.Context, p *places, log *slog.Logger) (*house, error) {
	roots, err := parseRoots(p.roots)
	if err != nil {
		return nil, err
	}
	for _, prefix := range p.external {
		if err := objstore.CheckPrefix(prefix); err != nil {
			return nil, usagef("--external: %w", err)
		}
	}
	var storage *objstore.StorageConfig
	if p.storage != "" {
		if storage, err = objstore.LoadStorage(p.storage); err != nil {
			return nil, usageError{err}
		}
	}
	h := &house{counter: objstore.NewCounter(objstore.CounterOptions{Ranges: rangesKept})}
	h.registry = objstore.NewRegistry(objstore.Options{
		Storage: storage, Schemes: cloud.Schemes(), Counter: h.counter, Logger: log,
	})
	allowed := append([]string(nil), p.external...)
	for _, r := range roots {
		allowed = append(allowed, r.URI)
	}
	h.env = table.NewEnv(h.registry, objstore.NewAccess(allowed...), table.Limits{})
	h.env.SetWriter("flightblob " + version)
	h.env.OnCommit(func(ctx context.Context, s *table.Snapshot) { autoCleanup(ctx, log, s) })
	if h.catalog, err = catalog.Open(ctx, roots, h.env); err != nil {
		return nil, errors.Join(usageError{err}, h.close())
	}
	return h, nil
}

// autoCleanup cleans a table up whose settings ask for that after a commit.
func autoCleanup(ctx context.Context, log *slog.Logger, s *table.Snapshot) {
	report, due, err := maintain.AutoCleanup(ctx, s)
	switch {
	case err != nil:
		log.WarnContext(ctx, "a cleanup after a commit failed; the commit stands", "table", s.Table().Name(), "error", err)
	case due:
		total := report.Total()
		log.InfoContext(ctx, "cleaned up after a commit", "table", report.Table, "versions", len(report.Removed), "files", total.Files, "bytes", total.Bytes)
	}
}

func (h *house) close() error { return h.registry.Close() }

// makeDefaultRoot makes the default root if it is the only one and absent.
func makeDefaultRoot(p *places) error {
	if len(p.roots) != 1 || p.roots[0] != defaultRoot {
		return nil
	}
	if err := os.MkdirAll(defaultRoot, 0o755); err != nil {
		return fmt.Errorf("make the default root: %w", err)
	}
	return nil
}

// checkRoots says which local root does not exist, before anyone waits for it.
func (h *house) checkRoots() error {
	for _, name := range h.catalog.Catalogs() {
		path, local, err := h.localRoot(name)
		if err != nil {
			return err
		}
		if !local {
			continue
		}
		st, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("root %s does not exist; make the folder, or give another --root", path)
		case err != nil:
			return fmt.Errorf("root %s: %w", path, err)
		case !st.IsDir():
			return fmt.Errorf("root %s is not a folder", path)
		}
	}
	return nil
}

// localRoot is the path of a catalog's root, if it is a local folder.
func (h *house) localRoot(name string) (path string, local bool, err error) {
	loc, err := h.catalog.Root(name)
	if err != nil {
		return "", false, err
	}
	path = loc.String()
	return path, !strings.Contains(path, "://"), nil
}
