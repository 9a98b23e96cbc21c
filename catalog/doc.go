// Package catalog turns names into table roots.
//
// Each root of the server is a catalog: a Lance directory namespace, shared
// with LanceDB and pylance (spec sheet "Directory namespace").
//
//	root/NAME.lance/            table NAME of schema main, registered or not
//	root/HHHHHHHH_ns$sub$NAME/  table NAME of schema ns$sub
//	root/__manifest/            rows that register namespaces and tables
//
// Changes of __manifest are made as the reference makes them: all rows anew in
// one fragment, published as the version right after the one that was read, or
// decided again. NewTable gives the place of a table that registers itself once
// it has a version; a root without __manifest stays without, until a schema is
// created, because plain clients neither need nor keep rows. DropTable takes the
// row away before the folder.
//
// The catalog holds no table open and remembers only the rows of the newest
// __manifest it has seen; every call lists anew, so a table is found as soon as
// anyone has published it.
package catalog
