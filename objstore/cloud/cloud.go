// Package cloud opens the buckets of cloud services for an objstore.Registry.
//
// Only the program imports it, so that the drivers, by far the largest part of
// the binary, stay out of the packages that are built and tested all day.
// Opening a bucket checks options and credentials but asks the service
// nothing: a wrong name or key shows at the first read.
package cloud

import (
	"time"

	"github.com/flightblob/flightblob/objstore"
)

// idleConnections is how many connections per service stay open between
// requests; drivers' defaults would close most of a parallel scan's.
const idleConnections = 64

// Schemes gives the openers of s3, gs and az.
func Schemes() map[string]objstore.Opener {
	return map[string]objstore.Opener{
		"s3": openS3,
		"gs": openGS,
		"az": openAZ,
	}
}

// contentType is what objects are stored as.
const contentType = "application/octet-stream"

// prefixOf starts the URIs of a bucket.
func prefixOf(scheme, name string) string { return scheme + "://" + name + "/" }

// abortWithin bounds the clean-up after a failure.
const abortWithin = 15 * time.Second
