package main

import (
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
