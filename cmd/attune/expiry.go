package main

import (
	"crypto/tls"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of the certificates that the operator serves with.
const (
	certificateOfWebhook = "webhook"
	certificateOfMetrics = "metrics"
)

// getCertificate returns the certificate that is served now; an error: there is none.
type getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// expiries shows until when the certificates are valid that are served (prometheus.Collector). They are read at each
// scrape: a certificate is replaced without an event. mutex guards of.
type expiries struct {
	mutex sync.Mutex
	desc  *prometheus.Desc
	of    map[string]getCertificate
}

func newExpiries() *expiries {
	return &expiries{
		desc: prometheus.NewDesc("attune_certificate_expiry_timestamp_seconds",
			"When the certificate ends that is served now, in Unix seconds, by what it is for: webhook or metrics.", []string{"certificate"}, nil),
		of: map[string]getCertificate{},
	}
}

// add a certificate by its name.
func (e *expiries) add(name string, get getCertificate) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.of[name] = get
}

// Describe implements prometheus.Collector.
func (e *expiries) Describe(to chan<- *prometheus.Desc) { to <- e.desc }

// Collect implements prometheus.Collector. A certificate that is not there yet has no series.
func (e *expiries) Collect(to chan<- prometheus.Metric) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for name, get := range e.of {
		if cert, err := get(nil); err == nil && cert != nil && cert.Leaf != nil {
			to <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, float64(cert.Leaf.NotAfter.Unix()), name)
		}
	}
}
