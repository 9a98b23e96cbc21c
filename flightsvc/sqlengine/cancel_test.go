package sqlengine_test

import (
	"context"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// eventually waits for something that must come true, on a machine that may have
// other things to do.
func eventually(t *testing.T, what string, true func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !true(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// TestCancelledCalls checks that CancelFlightInfo, a cancelled stream and a
// deadline stop the engine.
func TestCancelledCalls(t *testing.T) {
	h := serve(t)
	for _, sql := range []string{
		"SELECT count(*) FROM range(1000000) a(i), range(1000000) b(j) WHERE i + j = -1",
		`SELECT max(md5(blob_bytes(img))) FROM kinds_basic_v22.main."table", range(1000000000)`,
	} {
		for name, stop := range map[string]func(info *flight.FlightInfo, cancel func()) error{
			"CancelFlightInfo": func(info *flight.FlightInfo, _ func()) error {
				_, err := h.client.CancelFlightInfo(t.Context(), &flight.CancelFlightInfoRequest{Info: info})
				return err
			},
			"cancelled stream": func(_ *flight.FlightInfo, cancel func()) error {
				cancel()
				return nil
			},
			"deadline": nil,
		} {
			t.Run(name, func(t *testing.T) {
				info, err := h.client.Execute(t.Context(), sql)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				if stop == nil {
					ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
				}
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					_, _, err := h.read(ctx, info)
					ended <- err
				}()
				if stop != nil {
					eventually(t, "the engine begins", func() bool { return h.sql.Stats().Working > 0 })
					if err := stop(info, cancel); err != nil {
						t.Fatal(err)
					}
				}
				if code := status.Code(<-ended); code != codes.Canceled && code != codes.DeadlineExceeded {
					t.Errorf("the stream ended with %s", code)
				}
				eventually(t, "the engine stops", func() bool { return h.sql.Stats().Working == 0 })
			})
		}
	}
}
