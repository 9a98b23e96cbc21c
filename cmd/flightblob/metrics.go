package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/flightblob/flightblob/flightsvc"
	"github.com/flightblob/flightblob/materialize"
	"github.com/flightblob/flightblob/objstore"
	"github.com/flightblob/flightblob/query"
)

// watch adds what the SQL engine is doing to the metrics.
func (m *meters) watch(sql *query.Engine) {
	gauge := func(name, help string, value func(query.Stats) int64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			return float64(value(sql.Stats()))
		}))
	}
	gauge("flightblob_sql_working", "Statements that the SQL engine is at work on.", func(s query.Stats) int64 { return int64(s.Working) })
	gauge("flightblob_sql_memory_bytes", "What the SQL engine holds in memory.", func(s query.Stats) int64 { return s.Held })
}

// meters are the metrics of a server.
type meters struct {
	registry *prometheus.Registry
	running  *prometheus.GaugeVec
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	messages prometheus.Counter
	bytes    prometheus.Counter
	rows     prometheus.Counter
	panics   prometheus.Counter
}

func newMeters(counter *objstore.Counter, budget *materialize.Budget) *meters {
	m := &meters{
		registry: prometheus.NewRegistry(),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "flightblob_calls_running", Help: "Calls and streams under way.",
		}, []string{"method"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flightblob_calls_total", Help: "Calls that ended.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "flightblob_call_seconds", Help: "Duration of calls, streams included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"method"}),
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flightblob_sent_messages_total", Help: "Record batch messages sent.",
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flightblob_sent_bytes_total", Help: "Encoded bytes of data streams sent.",
		}),
		rows: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flightblob_sent_rows_total", Help: "Rows sent.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flightblob_panics_total", Help: "Panics that were turned into errors.",
		}),
	}
	m.registry.MustRegister(
		m.running, m.calls, m.seconds, m.messages, m.bytes, m.rows, m.panics,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&storeCollector{counter: counter, budget: budget},
	)
	return m
}

func (m *meters) events() flightsvc.Events {
	return flightsvc.Events{
		CallStarted: func(method string) { m.running.WithLabelValues(method).Inc() },
		CallEnded: func(c flightsvc.Call) {
			m.running.WithLabelValues(c.Method).Dec()
			m.calls.WithLabelValues(c.Method, c.Code.String()).Inc()
			m.seconds.WithLabelValues(c.Method).Observe(c.Duration.Seconds())
		},
		Sent: func(bytes, rows int64) {
			m.messages.Inc()
			m.bytes.Add(float64(bytes))
			m.rows.Add(float64(rows))
		},
		Panicked: func(string) { m.panics.Inc() },
	}
}

// serve serves the metrics at an address until stop is called; none for "".
func (m *meters) serve(addr string, log *slog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, listenError("--metrics", addr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics", "error", err)
		}
	}()
	log.Info("metrics", "uri", "http://"+l.Addr().String()+"/metrics")
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			log.Warn("metrics", "error", err)
		}
		<-done
	}, nil
}

// storeCollector reports what the counter and the budget say when asked.
type storeCollector struct {
	counter *objstore.Counter
	budget  *materialize.Budget
}

var (
	descRequests = prometheus.NewDesc("flightblob_store_requests_total", "Requests to object stores and files.", []string{"kind"}, nil)
	descBytes    = prometheus.NewDesc("flightblob_store_bytes_total", "Bytes read from and written to object stores and files.", []string{"kind"}, nil)
	descBudget   = prometheus.NewDesc("flightblob_budget_bytes", "Payload budget of all streams.", []string{"state"}, nil)
	descWaiting  = prometheus.NewDesc("flightblob_budget_waiting", "Batches that wait for the budget.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *storeCollector) Describe(out chan<- *prometheus.Desc) {
	out <- descRequests
	out <- descBytes
	out <- descBudget
	out <- descWaiting
}

// Collect implements prometheus.Collector.
func (c *storeCollector) Collect(out chan<- prometheus.Metric) {
	count := func(desc *prometheus.Desc, v int64, kind string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v), kind)
	}
	total := c.counter.Total()
	count(descRequests, total.Reads, "read")
	count(descRequests, total.MappedReads, "mapped_read")
	count(descRequests, total.Maps, "map")
	count(descRequests, total.Sizes, "size")
	count(descRequests, total.Lists, "list")
	count(descRequests, total.Creates, "create")
	count(descRequests, total.Puts, "put")
	count(descRequests, total.Deletes, "delete")
	count(descBytes, total.Bytes, "read")
	count(descBytes, total.MappedBytes, "mapped")
	count(descBytes, total.Written, "written")

	gauge := func(v int64, state string) {
		out <- prometheus.MustNewConstMetric(descBudget, prometheus.GaugeValue, float64(v), state)
	}
	stats := c.budget.Stats()
	gauge(stats.Capacity, "capacity")
	gauge(stats.InUse, "in_use")
	gauge(stats.Peak, "peak")
	gauge(stats.Pooled, "pooled")
	out <- prometheus.MustNewConstMetric(descWaiting, prometheus.GaugeValue, float64(stats.Waiting))
}
