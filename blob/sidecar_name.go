package blob

import "github.com/flightblob/flightblob/objstore"

// SidecarName is the object name of a sidecar id: its 32 bits, least
// significant first, and ".blob" (RES-5).
func SidecarName(id uint32) string {
	const suffix = ".blob"
	var name [32 + len(suffix)]byte
	for bit := range 32 {
		name[bit] = '0' + byte(id>>bit&1)
	}
	copy(name[32:], suffix)
	return string(name[:])
}

// Sidecar is the object with the given id of the owner's data file (RES-4).
func (o *Owner) Sidecar(id uint32) objstore.Location {
	return o.Dir.Join(o.Key, SidecarName(id))
}
