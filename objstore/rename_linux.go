package objstore

import "golang.org/x/sys/unix"

// renameNoReplace renames within a folder if the new name is free.
func renameNoReplace(dirfd int, from, to string) error {
	return unix.Renameat2(dirfd, from, dirfd, to, unix.RENAME_NOREPLACE)
}
