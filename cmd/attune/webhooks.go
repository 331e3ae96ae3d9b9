package main

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/certs"
	"attune.io/attune/webhook/pod"
	"attune.io/attune/webhook/validation"
)

// newCertificates returns the provider of the webhooks' serving certificate; nil if the program neither serves nor
// issues it.
//
// The controller issues the self-signed certificate, and has the rights to write it and to patch webhook
// configurations. The webhook is reachable from the whole pod network, so it may only read the Secret and change
// nothing.
func newCertificates(c Config) (certs.Provider, error) {
	if c.certificates.provider == providerCertManager {
		if !c.program.serves {
			return nil, nil
		}
		return certs.NewFiles(c.webhooks.certDir, clock.RealClock{})
	}
	host, of := c.certificates.service+"."+c.process.namespace, c.certificates.selfSigned
	of.Client, of.Namespace, of.DNSNames = c.api.clients, c.process.namespace, []string{host + ".svc", host + ".svc.cluster.local"}
	of.Follows, of.Clock, of.Log = !c.program.controls, clock.RealClock{}, ctrl.Log.WithName("certs")
	return certs.NewSelfSigned(of), nil
}

// addWebhooks adds the webhooks, and readiness checks for the certificate and for the index of recommendations. A
// replica without these must not receive reviews. Every replica of the webhook runs them.
func addWebhooks(ctx context.Context, mgr ctrl.Manager, c Config, provider certs.Provider, m meters) error {
	index := pod.NewIndex()
	fed, err := index.Feed(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	mgr.GetWebhookServer().Register(pod.Path, &pod.Handler{
		Known: index, Metrics: m.admission, Clock: clock.RealClock{}, Log: ctrl.Log.WithName("admission"),
	})
	// Fill these caches before the first review of a policy.
	for _, defaults := range []client.Object{&v1alpha1.AttuneDefaults{}, &v1alpha1.AttuneNamespaceDefaults{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, defaults, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %T: %w", defaults, err)
		}
	}
	mgr.GetWebhookServer().Register(validation.Path, validation.New(mgr.GetScheme(), watchedReader{mgr.GetClient(), c.watched}, c.operator()))
	if err := mgr.AddReadyzCheck("certificate", provider.Ready); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("known", fed)
}

// Names of the served certificates.
const (
	certificateOfWebhook = "webhook"
	certificateOfMetrics = "metrics"
)

// getCertificate returns the certificate that is served now, or an error if there is no certificate.
type getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// expiries exposes the expiry times of the served certificates (prometheus.Collector). It reads them at each scrape,
// because a certificate is replaced without an event. of is complete before the metrics are served.
type expiries struct {
	desc *prometheus.Desc
	of   map[string]getCertificate
}

func newExpiries() *expiries {
	return &expiries{
		desc: prometheus.NewDesc("attune_certificate_expiry_timestamp_seconds",
			"Time when the served certificate expires, in Unix seconds, by certificate: webhook or metrics.", []string{"certificate"}, nil),
		of: map[string]getCertificate{},
	}
}

// Describe implements prometheus.Collector.
func (e *expiries) Describe(to chan<- *prometheus.Desc) { to <- e.desc }

// Collect implements prometheus.Collector. A missing certificate has no series.
func (e *expiries) Collect(to chan<- prometheus.Metric) {
	for name, get := range e.of {
		if cert, err := get(nil); err == nil && cert != nil && cert.Leaf != nil {
			to <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, float64(cert.Leaf.NotAfter.Unix()), name)
		}
	}
}
