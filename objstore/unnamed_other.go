//go:build !linux

package objstore

import (
	"os"

	"golang.org/x/sys/unix"
)

func (*folder) createUnnamed() (*os.File, error)   { return nil, unix.EOPNOTSUPP }
func (*folder) linkUnnamed(*os.File, string) error { return unix.EOPNOTSUPP }
