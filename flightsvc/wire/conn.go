package wire

import (
	"net"
	"sync"
)

// NewListener wraps the connections of a TCP or Unix listener so that each
// HTTP/2 data frame goes out by one writev, straight from where its bytes lie.
// The gRPC server must use grpc.WriteBufferSize(0) and no transport
// credentials. Connections of other kinds stay as they are: without writev
// there must be no mapped buffers either.
func NewListener(l net.Listener) net.Listener { return &listener{l} }

type listener struct{ net.Listener }

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	switch c.(type) {
	case *net.TCPConn, *net.UnixConn:
		return &conn{Conn: c}, nil
	}
	return c, nil
}

// Layout of an HTTP/2 frame header: 24-bit length, type, flags, stream.
const (
	frameHeader = 9
	frameData   = 0
)

// conn gathers the writes of one data frame. Unbuffered, gRPC writes a data
// frame as its nine header bytes and then the pieces of its payload, which stay
// untouched until the last piece's Write has returned; other frames are single
// writes. So holding the pieces until the frame is whole is sound.
type conn struct {
	net.Conn

	mu     sync.Mutex
	header [frameHeader]byte
	pieces net.Buffers // the frame so far, header first
	left   int         // payload bytes still to come
	spare  [][]byte
}

// Write implements net.Conn. A failed write closes the connection: gRPC's
// transport would else wait for its reader for ever, and what went out already
// may be half a frame.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.pieces) == 0 && len(p) == frameHeader && p[3] == frameData && length(p) > 0:
		copy(c.header[:], p)
		c.pieces = append(c.spare[:0], c.header[:])
		c.left = length(p)
		return len(p), nil
	case len(c.pieces) == 0:
		n, err := c.Conn.Write(p)
		if err != nil {
			c.Conn.Close()
		}
		return n, err
	}
	c.pieces = append(c.pieces, p)
	c.left -= len(p)
	if c.left > 0 {
		return len(p), nil
	}
	c.spare = c.pieces
	_, err := c.pieces.WriteTo(c.Conn)
	clear(c.spare)
	c.pieces = nil
	if err != nil {
		c.Conn.Close()
		return 0, err
	}
	return len(p), nil
}

func length(header []byte) int {
	return int(header[0])<<16 | int(header[1])<<8 | int(header[2])
}
