package main

import (
	"crypto/tls"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"attune.io/attune/certs"
	"attune.io/attune/webhook/server"
)

// webhooks are served with the provider's certificate.
func (o *options) webhooks(provider certs.Provider) webhook.Server {
	return server.New(server.Options{
		Port: o.webhookPort, GetCertificate: provider.GetCertificate, Bytes: reviewBytes(),
		Clients: o.webhookClients, Metrics: o.meters.webhooks,
	})
}

// metricsServer serves the metrics to whoever comes or, over TLS with a certificate of its own making, to those whom
// the API server lets read them.
func (o *options) metricsServer() metricsserver.Options {
	options := metricsserver.Options{BindAddress: o.metricsAddress, FilterProvider: fewScrapes}
	if o.metricsSecure {
		options.SecureServing, options.FilterProvider = true, onlyReaders
		options.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion, c.NextProtos = tls.VersionTLS12, []string{"http/1.1"}
		}}
	}
	return options
}
