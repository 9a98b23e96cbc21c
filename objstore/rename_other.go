//go:build !linux

package objstore

import "golang.org/x/sys/unix"

// renameNoReplace renames within a folder if the new name is free.
func renameNoReplace(int, string, string) error { return unix.ENOSYS }
