// Flightblob serves Lance tables over Arrow Flight.
//
// Every setting is a flag; what is not given as one is taken from the
// environment (FLIGHTBLOB_ and the flag in capitals), then from the file of
// --config, then from the defaults. Data goes to stdout, logs and hints to
// stderr. Exit status: 0 done, 1 failed or interrupted, 2 wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/flightblob/flightblob/internal/spelling"
)

// version is set by the linker.
var version = "devel"

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, os.LookupEnv)) }

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake in how the program was called.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// environment looks a variable up.
type environment func(name string) (value string, ok bool)

// run runs one command line and gives its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, env environment) int {
	// The first signal ends the command in order, the second at once.
	patient, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	ctx, stop = signal.NotifyContext(context.WithValue(patient, patientKey{}, patient), os.Interrupt)
	defer stop()

	root := command(stdout, stderr, env)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(stderr, "flightblob: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintln(stderr, "flightblob: see flightblob --help, and flightblob COMMAND --help")
		return exitUsage
	}
	return exitFailed
}

type patientKey struct{}

// withoutInterrupt is the context of a command that handles interrupts itself:
// only what ends the program ends it.
func withoutInterrupt(ctx context.Context) context.Context {
	if patient, ok := ctx.Value(patientKey{}).(context.Context); ok {
		return patient
	}
	return ctx
}

// command builds the tree of commands.
func command(stdout, stderr io.Writer, env environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "flightblob",
		Short: "Serves Lance tables and their blobs over Arrow Flight",
		Long: `Flightblob serves Lance tables over Arrow Flight. Blob columns arrive as bytes,
as descriptors, or as references that can be written back.

Settings: flags, then environment variables FLIGHTBLOB_<FLAG> (capitals, dashes
as underscores, repeated values separated by commas), then --config FILE (TOML,
flags as keys, on top or in a table per command), then defaults.`,
		Example: `  flightblob demo
  flightblob serve --root ./warehouse
  flightblob inspect media`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return fillFlags(cmd, env)
		},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.SetVersionTemplate("flightblob {{.Version}}\n")
	root.PersistentFlags().String(configFlag, "", "TOML `FILE` with settings, flags as keys")
	root.AddCommand(serveCommand(), demoCommand(), inspectCommand(), queryCommand(), importCommand(), exportCommand())
	root.AddCommand(maintenanceCommands()...)
	return root
}

// noArgs refuses arguments as wrong usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}

// oneArg wants exactly one argument.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s takes one %s, got %d arguments", cmd.Name(), what, len(args))
		}
		return nil
	}
}

// theArgs wants exactly these arguments.
func theArgs(what ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(what) {
			return usagef("%s takes %s, got %s", strings.TrimPrefix(cmd.CommandPath(), "flightblob "), strings.Join(what, " and "), spelling.Count(len(args), "argument"))
		}
		return nil
	}
}
