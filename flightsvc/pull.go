package flightsvc

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// pull is a record reader over a function. It is for one goroutine.
type pull struct {
	refs   atomic.Int64
	schema *arrow.Schema
	// next gives the next batch, which becomes the reader's, or nil at the end.
	next func() (arrow.RecordBatch, error)
	stop func() // runs once, when the reader is released; may be nil
	cur  arrow.RecordBatch
	err  error
	done bool
}

func newPull(sch *arrow.Schema, next func() (arrow.RecordBatch, error), stop func()) array.RecordReader {
	p := &pull{schema: sch, next: next, stop: stop}
	p.refs.Store(1)
	return p
}

func (p *pull) Schema() *arrow.Schema          { return p.schema }
func (p *pull) RecordBatch() arrow.RecordBatch { return p.cur }
func (p *pull) Record() arrow.RecordBatch      { return p.cur }
func (p *pull) Err() error                     { return p.err }
func (p *pull) Retain()                        { p.refs.Add(1) }

func (p *pull) Next() bool {
	p.forget()
	if p.done {
		return false
	}
	p.cur, p.err = p.next()
	p.done = p.cur == nil || p.err != nil
	if p.done {
		p.forget()
	}
	return !p.done
}

func (p *pull) forget() {
	if p.cur != nil {
		p.cur.Release()
		p.cur = nil
	}
}

func (p *pull) Release() {
	if p.refs.Add(-1) == 0 {
		p.forget()
		p.done = true
		if p.stop != nil {
			p.stop()
		}
	}
}
