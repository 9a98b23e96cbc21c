package query

// Left counts what statements have not given back: open runs and origins.
func (e *Engine) Left() (runs, origins int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.runs), e.registry.Len()
}

// InUse is the payload memory that results hold.
func (e *Engine) InUse() int64 { return e.opts.Budget.Stats().InUse }

// Knows says whether the plan of a statement of the first catalog is remembered.
func (e *Engine) Knows(sql string) bool {
	r := &run{engine: e}
	k := e.recall.get(r.placeOf(sql))
	return k != nil && k.findings != nil
}
