package blob

import (
	"slices"
	"strings"

	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/objstore"
)

// refer gives the External descriptor of a URI (EXT-1 to EXT-8): below the
// longest registered base that is no dataset root, by path components, with the
// remainder decoded; else the absolute URI in normal form, if that is allowed.
// Nothing is read. stored tells that the value was an External one already, of
// another table: such references need no permission to leave the bases.
//
// The error's rule is empty where none has a number.
func (p *Placer) refer(uri string, position, size uint64, stored bool) (d Descriptor, rule string, err error) {
	d = Descriptor{Kind: External, Position: position, Size: size}
	plain := !isURI(uri) && !strings.HasPrefix(strings.ToLower(uri), "file:/")
	if plain && !strings.HasPrefix(uri, "/") {
		return d, "EXT-7", fault.New(fault.Invalid, "uri %s is relative; give an absolute URI", fault.Quote(uri))
	}
	if _, _, err := objstore.SplitURI(uri); err != nil {
		return d, "", err
	}
	longest := -1
	for _, base := range p.bases {
		// Of two bases at one place the lower id is taken; one that is no
		// valid URI holds nothing.
		if rest, depth, ok, err := objstore.Below(uri, base.Path); err == nil && ok && depth > longest {
			longest, d.ID, d.URI = depth, base.ID, rest
		}
	}
	if longest >= 0 {
		// A name that no relative path can express stays absolute.
		if _, err := externalPath(d.URI); err == nil {
			return d, "", nil
		}
		d.ID, d.URI = 0, ""
	}
	return p.outside(d, uri, plain, stored)
}

// outside refers to an object that lies in no base.
func (p *Placer) outside(d Descriptor, uri string, plain, stored bool) (Descriptor, string, error) {
	if plain {
		return d, "EXT-7", fault.New(fault.Invalid, "path %s lies in no registered base; outside of them give an absolute URI, as file://%s",
			fault.Quote(uri), objstore.EscapePath(uri[:min(len(uri), 512)]))
	}
	normal, err := objstore.NormalURI(uri)
	if err != nil {
		return d, "", err
	}
	scheme, _, _ := strings.Cut(normal, ":")
	if known := p.policy.URIs.Schemes; known != nil && !slices.Contains(known, scheme) {
		return d, "", fault.New(fault.Invalid, "uri %s has the unknown scheme %q; known: %s", fault.Quote(normal), scheme, strings.Join(known, ", "))
	}
	if allows := p.policy.URIs.Allows; allows != nil {
		if err := allows(normal); err != nil {
			return d, "", err
		}
	}
	if !p.policy.URIs.AllowOutside && !stored {
		return d, "EXT-6", fault.New(fault.Invalid, "uri %s lies in no registered base; register one above it, "+
			`allow references outside of the bases ("allow_outside_bases": true), or have the bytes copied ("external": "ingest")`, fault.Quote(normal))
	}
	d.URI = normal
	return d, "", nil
}
