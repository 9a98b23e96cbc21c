package manifest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Folders and files below the root of a table or of a branch, section 1.
const (
	VersionsDir     = "_versions"
	TransactionsDir = "_transactions"
	DataDir         = "data"
	DeletionsDir    = "_deletions"
	IndicesDir      = "_indices"
	HintName        = "latest_version_hint.json" // in VersionsDir
)

// Scheme is how a folder names its manifests; a folder has one scheme.
type Scheme uint8

// The schemes of section 1.1, and the names of detached versions.
const (
	V1       Scheme = iota + 1 // <version>.manifest
	V2                         // <2^64-1-version, 20 digits>.manifest
	Detached                   // d<version>.manifest, for versions with bit 63
)

// detachedBit marks versions outside the history (section 1.4).
const detachedBit = uint64(1) << 63

const (
	manifestSuffix = ".manifest"
	v2Length       = 20 + len(manifestSuffix)
)

// IsDetached says that a version is not part of the history.
func IsDetached(version uint64) bool { return version&detachedBit != 0 }

// ParseName reads the version and the scheme from the name of a file in
// _versions. Other names, among them temporary files of writers, give false and
// are to be ignored.
func ParseName(name string) (version uint64, scheme Scheme, ok bool) {
	stem, found := strings.CutSuffix(name, manifestSuffix)
	if !found {
		return 0, 0, false
	}
	if digits, detached := strings.CutPrefix(stem, "d"); detached {
		n, err := strconv.ParseUint(digits, 10, 64)
		return n, Detached, err == nil && IsDetached(n) && canonical(digits)
	}
	n, err := strconv.ParseUint(stem, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	if len(name) == v2Length {
		n = math.MaxUint64 - n
		return n, V2, !IsDetached(n)
	}
	return n, V1, !IsDetached(n) && canonical(stem)
}

// canonical refuses padded numbers: two names must not mean one version.
func canonical(digits string) bool { return digits == "0" || digits[0] != '0' }

// Name is the name of a version's manifest in _versions. Detached versions have
// one form, whatever the scheme of the folder.
func Name(version uint64, scheme Scheme) string {
	switch {
	case IsDetached(version):
		return fmt.Sprintf("d%d%s", version, manifestSuffix)
	case scheme == V1:
		return fmt.Sprintf("%d%s", version, manifestSuffix)
	}
	return fmt.Sprintf("%020d%s", math.MaxUint64-version, manifestSuffix)
}

// Path is the path of a version's manifest below the table's root.
func Path(version uint64, scheme Scheme) string {
	return VersionsDir + "/" + Name(version, scheme)
}

// TransactionPath is the path of a version's transaction file below the table's
// root; false if the manifest names none.
func (m *Manifest) TransactionPath() (string, bool) {
	if m.TransactionID == "" || strings.ContainsAny(m.TransactionID, "/\\\x00") || m.TransactionID == ".." {
		return "", false
	}
	return TransactionsDir + "/" + m.TransactionID, true
}
