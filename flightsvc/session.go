package flightsvc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/flightblob/flightblob/internal/fault"
)

// A session holds a client's choices between its calls. Which session a call
// belongs to is said, strongest first, by
//
//	the cookie arrow_flight_session_id, which SetSessionOptions gives out,
//	the header flightblob-session, any text that the client chooses,
//	the bearer token of the call,
//	the connection, for clients that do none of this (ADBC's default).
//
// The last is left to clients that are seen to keep no cookies and to
// connections that carry no sign of a proxy, which would lend one to many.
const (
	sessionCookie = "arrow_flight_session_id"
	headerSession = "flightblob-session"
	headerAuth    = "authorization"
	bearerPrefix  = "Bearer "
	// anonymousToken is what Handshake gives to everyone, noToken what
	// flightsql-dbapi sends when it has none; they tell nobody apart.
	anonymousToken = "anonymous"
	noToken        = "None"
	// maxSessionKey is the longest key that a client may choose.
	maxSessionKey = 1 << 10
)

// Bounds of sessions. They hold little, so many fit.
const (
	defaultSessionIdle = time.Hour
	maxSessions        = 10_000 // of all clients
)

// caller is who makes a call, as far as it matters for what is kept.
type caller struct {
	principal string
	key       string // of the session the call names; "" when it names none
	cookie    bool   // key comes from a cookie, which only this server makes
	conn      string // key of the connection; "" behind a proxy
	addr      net.Addr
}

// callerOf reads a call's headers. A key that a client chose and that is too
// long is fault.Invalid.
func (s *Server) callerOf(ctx context.Context) (caller, error) {
	var c caller
	if s.opts.Principal != nil {
		c.principal = s.opts.Principal(ctx)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	hashed := func(kind, value string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s%s", kind, len(c.principal), c.principal, value))
		return hex.EncodeToString(sum[:])
	}
	if p, ok := peer.FromContext(ctx); ok && !proxied(md) {
		switch p.Addr.(type) {
		case *net.TCPAddr, *net.UnixAddr:
			// gRPC asks a connection for its address once, so the pointer stands
			// for the connection as long as it is held.
			c.conn, c.addr = hashed("connection", fmt.Sprintf("%p", p.Addr)), p.Addr
		}
	}
	if v := cookieOf(md); v != "" {
		c.key, c.cookie = hashed("cookie", v), true
		return c, nil
	}
	if v := lastOf(md, headerSession); v != "" {
		if len(v) > maxSessionKey {
			return c, fault.New(fault.Invalid, "header %s: %d bytes are more than the %d allowed", headerSession, len(v), maxSessionKey)
		}
		c.key = hashed("header", v)
		return c, nil
	}
	if v, ok := strings.CutPrefix(lastOf(md, headerAuth), bearerPrefix); ok && v != "" && v != anonymousToken && v != noToken {
		c.key = hashed("bearer", v)
	}
	return c, nil
}

// owner is whom a thing is kept for, and counted for: the session, else the
// connection, else the principal.
func (c caller) owner() string {
	switch {
	case c.key != "":
		return "session " + c.key
	case c.conn != "":
		return "connection " + c.conn
	}
	return "principal " + c.principal
}

// proxied says that a call came through something that speaks for others.
func proxied(md metadata.MD) bool {
	for _, name := range []string{"x-forwarded-for", "forwarded", "via", "x-real-ip", "x-envoy-external-address"} {
		if len(md.Get(name)) > 0 {
			return true
		}
	}
	return false
}

func lastOf(md metadata.MD, name string) string {
	if v := md.Get(name); len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

func cookieOf(md metadata.MD) string {
	for _, line := range md.Get("cookie") {
		cookies, err := http.ParseCookie(line)
		if err != nil {
			continue
		}
		for _, c := range cookies {
			if c.Name == sessionCookie && c.Value != "" {
				return c.Value
			}
		}
	}
	return ""
}

// session is what a client has set.
type session struct {
	keys []string // under which it is found
	addr net.Addr // keeps a connection's key from being another's

	mu      sync.Mutex
	options map[string]sessionOption
}

// session finds the session of a call, nil when there is none.
func (s *Server) session(ctx context.Context) (*session, error) {
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, err
	}
	return s.sessionOf(c), nil
}

func (s *Server) sessionOf(c caller) *session {
	key := c.key
	if key == "" {
		key = c.conn
	}
	if key == "" {
		return nil
	}
	found, _, ok := s.sessions.get(key, true)
	if !ok {
		return nil
	}
	if c.cookie && c.conn != "" {
		// The client keeps cookies; its connection may serve others as well.
		if other, _, ok := s.sessions.get(c.conn, false); ok && other == found {
			s.sessions.take(c.conn)
		}
	}
	return found
}

// sessionFor finds the session of a call or makes one. A client that brings no
// key of its own gets a cookie.
func (s *Server) sessionFor(ctx context.Context) (*session, error) {
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if have := s.sessionOf(c); have != nil {
		return have, nil
	}
	made := &session{options: map[string]sessionOption{}}
	owner := "principal " + c.principal
	if c.key != "" && !c.cookie {
		made.keys = []string{c.key}
		return s.sessions.once(c.key, owner, made), nil
	}
	token := newKey()
	md := metadata.Pairs("cookie", sessionCookie+"="+token)
	cookie, err := s.callerOf(metadata.NewIncomingContext(ctx, md))
	if err != nil {
		return nil, err
	}
	made.keys = []string{cookie.key}
	if c.conn != "" && c.key == "" {
		made.keys, made.addr = append(made.keys, c.conn), c.addr
	}
	for _, key := range made.keys {
		s.sessions.put(key, owner, made)
	}
	return made, setCookie(ctx, token, "")
}

// closeSession forgets the session of a call and what was kept for it.
func (s *Server) closeSession(ctx context.Context) error {
	c, err := s.callerOf(ctx)
	if err != nil {
		return err
	}
	s.prepared.dropOwner(c.owner())
	found := s.sessionOf(c)
	if found == nil {
		return nil
	}
	for _, key := range found.keys {
		s.sessions.take(key)
	}
	if c.cookie {
		return setCookie(ctx, "", "; Max-Age=0")
	}
	return nil
}

func setCookie(ctx context.Context, token, attributes string) error {
	value := fmt.Sprintf("%s=%s%s", sessionCookie, token, attributes)
	if err := grpc.SetHeader(ctx, metadata.Pairs("set-cookie", value)); err != nil {
		return fault.New(fault.Internal, "flightsvc: set the session's cookie: %w", err)
	}
	return nil
}
