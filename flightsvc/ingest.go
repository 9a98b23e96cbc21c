package flightsvc

import (
	flightpb "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"

	"github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/flightblob/flightblob/catalog"
	"github.com/flightblob/flightblob/internal/fault"
)

// ingest writes the rows that follow an ingest command, as ADBC's adbc_ingest
// sends them, and answers how many.
func (s *Server) ingest(m *flightpb.CommandStatementIngest, stream flight.FlightService_DoPutServer) error {
	c, err := ingestCommand(m)
	if err != nil {
		return err
	}
	space, err := s.namespace(stream.Context())
	if err != nil {
		return err
	}
	if c.name.Catalog == "" {
		c.name.Catalog = space.Catalog
	}
	if c.name.Schema == "" {
		c.name.Schema = space.Schema
	}
	done, _, err := s.write(c, stream)
	if err != nil {
		return err
	}
	return sendPut(stream, &flightpb.DoPutUpdateResult{RecordCount: int64(done.Rows)})
}

// ingestCommand reads the command. What it asks for and this server does not do
// is refused rather than left out.
func ingestCommand(m *flightpb.CommandStatementIngest) (*putCommand, error) {
	const (
		create  = flightpb.CommandStatementIngest_TableDefinitionOptions_TABLE_NOT_EXIST_OPTION_CREATE
		absent  = flightpb.CommandStatementIngest_TableDefinitionOptions_TABLE_NOT_EXIST_OPTION_FAIL
		fail    = flightpb.CommandStatementIngest_TableDefinitionOptions_TABLE_EXISTS_OPTION_FAIL
		add     = flightpb.CommandStatementIngest_TableDefinitionOptions_TABLE_EXISTS_OPTION_APPEND
		replace = flightpb.CommandStatementIngest_TableDefinitionOptions_TABLE_EXISTS_OPTION_REPLACE
		options = "CommandStatementIngest: table_definition_options."
	)
	o := m.GetTableDefinitionOptions()
	if m.GetTable() == "" {
		return nil, fault.New(fault.Invalid, "CommandStatementIngest: the table has no name")
	}
	c := &putCommand{name: catalog.Name{Catalog: m.GetCatalog(), Schema: m.GetSchema(), Table: m.GetTable()}}
	switch [2]int32{int32(o.GetIfNotExist()), int32(o.GetIfExists())} {
	case [2]int32{int32(create), int32(fail)}:
		c.mode = putCreate
	case [2]int32{int32(absent), int32(add)}:
		c.mode = putAppend
	case [2]int32{int32(create), int32(add)}:
		c.mode = putCreateAppend
	case [2]int32{int32(create), int32(replace)}:
		c.mode = putReplace
	case [2]int32{int32(absent), int32(replace)}:
		c.mode = putOverwrite
	default:
		switch {
		case o.GetIfNotExist() != create && o.GetIfNotExist() != absent:
			return nil, fault.New(fault.Invalid, options+"if_not_exist is not given")
		case o.GetIfExists() != fail && o.GetIfExists() != add && o.GetIfExists() != replace:
			return nil, fault.New(fault.Invalid, options+"if_exists is not given")
		}
		return nil, fault.New(fault.Invalid, options+"if_not_exist and if_exists both say FAIL, which no table can satisfy")
	}
	if m.GetTemporary() {
		return nil, fault.New(fault.Unsupported, "CommandStatementIngest: there are no temporary tables; leave temporary out")
	}
	for key := range m.GetOptions() {
		return nil, fault.New(fault.Invalid, "CommandStatementIngest: the option %s is unknown; there are none", quote(key))
	}
	return c, noTransaction(m.GetTransactionId())
}
