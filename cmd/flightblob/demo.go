package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// demoRows are the rows of the demo table as Arrow streams;
// tools/make_demo_table.py makes them anew.
//
//go:embed demo/pictures.arrows demo/sounds.arrows
var demoRows embed.FS

// demoFiles are put in this order, a version each.
var demoFiles = []string{"demo/pictures.arrows", "demo/sounds.arrows"}

const demoName = "media"

func demoCommand() *cobra.Command {
	var s serving
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serves a small table of pictures and sounds",
		Long: `Puts a small table of pictures and sounds, "media", into the root if it is not
there, serves the root, and prints a client to paste. The server's own DoPut
makes the table.`,
		Example: `  flightblob demo
  flightblob demo --root /tmp/tables --listen 127.0.0.1:0`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.run(cmd, hooks{
				prepare: prepareDemo,
				serving: putDemo,
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

// prepareDemo makes the first root if it is absent.
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
	return nil
}

// putDemo puts the demo table into the server that listens at uri, as any client
// would, unless there is a table of its name.
func putDemo(ctx context.Context, uri string) error {
	client, err := flight.NewClientWithMiddlewareCtx(ctx, strings.TrimPrefix(uri, "grpc://"), nil, nil,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { _ = client.Close() }()
	media := &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{demoName}}
	if _, err := client.GetSchema(ctx, media); status.Code(err) != codes.NotFound {
		if err != nil {
			return fmt.Errorf("demo: look for the table: %w", err)
		}
		return nil
	}
	for i, file := range demoFiles {
		mode := "append"
		if i == 0 {
			mode = "create"
		}
		command := fmt.Appendf(nil, `{"table":%q,"mode":%q}`, demoName, mode)
		err := putStream(ctx, client, &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: command}, file)
		if status.Code(err) == codes.AlreadyExists { // another demo in this root was faster
			return nil
		}
		if err != nil {
			return fmt.Errorf("demo: put %s: %w", file, err)
		}
	}
	return nil
}

// putStream sends an embedded Arrow stream.
func putStream(ctx context.Context, client flight.Client, d *flight.FlightDescriptor, file string) error {
	data, err := demoRows.ReadFile(file)
	if err != nil {
		return err
	}
	rows, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	defer rows.Release()
	stream, err := client.DoPut(ctx)
	if err != nil {
		return err
	}
	w := flight.NewRecordWriter(stream, ipc.WithSchema(rows.Schema()))
	w.SetFlightDescriptor(d)
	for rows.Next() {
		if err := w.Write(rows.RecordBatch()); err != nil {
			break // the answer says why
		}
	}
	if err := errors.Join(rows.Err(), w.Close(), stream.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err = stream.Recv()
	return err
}
