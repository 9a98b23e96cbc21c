package main

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/flightblob/flightblob/catalog"
)

// byteSize is a flag of a number of bytes: 65536, 64KiB, 256MiB, 1GB.
type byteSize int64

var byteUnits = []struct {
	suffix string
	factor int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// Set implements pflag.Value.
func (b *byteSize) Set(text string) error {
	number, factor := strings.TrimSpace(text), int64(1)
	for _, u := range byteUnits {
		if len(number) > len(u.suffix) && strings.EqualFold(number[len(number)-len(u.suffix):], u.suffix) {
			number, factor = strings.TrimSpace(number[:len(number)-len(u.suffix)]), u.factor
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return fmt.Errorf("%q is not a size such as 256MiB", text)
	}
	*b = byteSize(n * factor)
	return nil
}

// String implements pflag.Value: the largest binary unit without a remainder.
func (b *byteSize) String() string {
	n := int64(*b)
	for i := 3; i >= 0; i-- {
		if u := byteUnits[i]; n >= u.factor && n%u.factor == 0 {
			return fmt.Sprintf("%d%s", n/u.factor, u.suffix)
		}
	}
	return strconv.FormatInt(n, 10)
}

// Type implements pflag.Value.
func (b *byteSize) Type() string { return "SIZE" }

// rootName is what may stand before = in --root NAME=URI; anything else is part
// of a path.
var rootName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*=`)

// parseRoots reads the values of --root.
func parseRoots(values []string) ([]catalog.Root, error) {
	roots := make([]catalog.Root, len(values))
	for i, v := range values {
		if m := rootName.FindString(v); m != "" {
			roots[i] = catalog.Root{Name: m[:len(m)-1], URI: v[len(m):]}
		} else {
			roots[i] = catalog.Root{URI: v}
		}
		if roots[i].URI == "" {
			return nil, usagef("--root %q names no place", v)
		}
	}
	return roots, nil
}

// loopback tells whether an address to listen on is reachable from this machine
// only.
func loopback(addr string) (bool, error) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return false, usagef("%q is not an address such as 127.0.0.1:31337", addr)
	}
	if host == "localhost" {
		return true, nil
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback(), nil
}

// parseLevel reads a log level.
func parseLevel(text string) (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(text)); err != nil {
		return l, usagef("--log-level %q is not debug, info, warn or error", text)
	}
	return l, nil
}
