// Package flightsvc is the front door: Arrow Flight requests in, record
// batches on the wire out.
//
// A request names a table (path, JSON command or ticket), a version and a face
// for its blob columns; router.go decides which of the three a descriptor is.
// The answer walks catalog → table snapshot → scan → materialize → the codec of
// flightsvc/wire. Nothing here knows the format of a table.
//
// Every error leaves through status in errors.go, so that codes, length and the
// secrecy of local paths are decided in one place, and every call passes the
// interceptors of intercept.go, so that no input ends the process.
package flightsvc
