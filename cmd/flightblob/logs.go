package main

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// logging are the settings of logs, which go to stderr.
type logging struct{ level, format string }

func (l *logging) flags(f *pflag.FlagSet) {
	f.StringVar(&l.level, "log-level", "info", "`LEVEL` of logs: debug, info, warn or error")
	f.StringVar(&l.format, "log-format", "text", "`FORMAT` of logs: text or json")
}

func (l *logging) logger(w io.Writer) (*slog.Logger, error) {
	level, err := parseLevel(l.level)
	if err != nil {
		return nil, err
	}
	opts := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, usagef("--log-format %q is neither text nor json", l.format)
}
