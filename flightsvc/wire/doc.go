// Package wire sends record batches as Flight messages without copying them.
//
// A message on the wire is one FlightData protobuf:
//
//	0A len flight_descriptor      only in the first message, if at all
//	12 len data_header            the Arrow IPC message (a flatbuffer)
//	1A len app_metadata           if given
//	C2 3E len data_body           the Arrow buffers, each padded to 8 bytes
//
// Everything up to the body's length is put together here; the body is a list
// of the Arrow buffers themselves, which gRPC hands to the socket. The batch
// that owns them is retained until the last of them has been written, so its
// memory (pooled, mapped or counted against a budget) comes back exactly when
// the client has taken it, and a slow client holds at most the message being
// written and the one that waits behind it.
//
// Three parts belong together: Codec, which a server installs with
// grpc.ForceServerCodecV2; Writer, which turns batches into such messages on a
// stream; and Listener, whose connections hand each HTTP/2 frame to the kernel
// by one writev. Only with Listener's connections, unencrypted, and with gRPC's
// write buffer off may buffers lie in mapped files: the kernel reports a
// truncated mapping as an error, where a copy in user space ends the process.
package wire
