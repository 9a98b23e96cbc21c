// Package catalog turns names into table roots.
//
// Each root of the server is a catalog: a Lance directory namespace, shared
// with LanceDB and pylance (spec sheet "Directory namespace").
//
//	root/NAME.lance/            table NAME of schema main, registered or not
//	root/HHHHHHHH_ns$sub$NAME/  table NAME of schema ns$sub
//	root/__manifest/            rows that register namespaces and tables
//
// Place says where a new table goes, and DropTable removes one of schema main
// that no row points at. A registered table cannot be dropped without its row:
// clients that go by rows could then neither open nor make it.
//
// The catalog holds no table open and remembers only the rows of the newest
// __manifest it has seen; every call lists anew, so a table is found as soon as
// anyone has published it.
package catalog
