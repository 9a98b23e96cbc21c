//go:build !linux

package objstore

import "errors"

func fullMain([]string) error { return errors.New("no small disks here") }
