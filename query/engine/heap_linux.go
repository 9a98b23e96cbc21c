package engine

// #cgo LDFLAGS: -Wl,--wrap=duckdb_je_malloc -Wl,--wrap=duckdb_je_realloc -Wl,--wrap=duckdb_je_free
// #cgo LDFLAGS: -Wl,--wrap=_ZN6duckdb18ExpressionExecutor7ExecuteERKNS_23BoundFunctionExpressionEPNS_15ExpressionStateEPKNS_15SelectionVectorEmRNS_6VectorE
// #cgo LDFLAGS: -Wl,--wrap=_ZN6duckdb8Interval3AddENS_11timestamp_tENS_10interval_tE
// #cgo LDFLAGS: -Wl,--wrap=_ZN6duckdb11ICUDateFunc3AddERNS_10TZCalendarENS_11timestamp_tENS_10interval_tE
// #cgo CFLAGS: -fexceptions
import "C"
