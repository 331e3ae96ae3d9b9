package main

import (
	"errors"
	"fmt"
	"time"

	"attune.io/attune/internal/policy"
)

// Validate returns an error for flags that cannot work: one sentence with the flag, its value and what would work.
// It checks the flags of the program alone, and changes nothing.
func (o *Options) Validate() error {
	checks := []func() error{o.process.validate, o.certificates.validate, o.webhooks.validate, o.policies.validate}
	if o.program.controls {
		checks = append(checks, o.usage.validate, func() error { return o.loops.validate(o.process.watched) })
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// validate checks that the operator knows its own namespace: leases, Secrets and tokens are there.
func (o *processOptions) validate() error {
	if o.namespace == "" {
		return errors.New("--namespace is empty: set it, or the environment variable POD_NAMESPACE, to the operator's own namespace")
	}
	_, err := levelOf(o.logLevel)
	return err
}

// validate checks the provider.
func (o *certificateOptions) validate() error {
	if o.provider != providerCertManager && o.provider != providerSelfSigned {
		return fmt.Errorf("--certs-provider %q is unknown: use %s or %s", o.provider, providerCertManager, providerSelfSigned)
	}
	return nil
}

// validate refuses names without an authority: a name in a certificate that is not verified proves nothing.
func (o *webhookOptions) validate() error {
	if len(o.clients.Names) > 0 && o.clients.CAFile == "" {
		return errors.New("--webhook-client-name needs --webhook-client-ca-file: set it to the file with the certificates that callers are verified with")
	}
	return nil
}

// validate checks that the bounds leave room for a policy that works.
func (o *policyOptions) validate() error {
	switch {
	case o.steps < 48 || o.steps > policy.MostSteps:
		return fmt.Errorf("--max-history-steps %d must be between 48 and %d, such as %d", o.steps, policy.MostSteps, policy.DefaultSteps)
	case o.rate < 30*time.Second:
		return fmt.Errorf("--max-rate-window %s is too short: use at least 30s, such as 1h", o.rate)
	}
	return nil
}

// validate checks the flags of the loops. watched are the namespaces of the flags: what concerns whole nodes needs
// all namespaces.
func (o *loopOptions) validate(watched namespaces) error {
	switch {
	case o.decisionsAddress != "" && loopback(o.decisionsAddress) != nil:
		return loopback(o.decisionsAddress)
	case len(watched) > 0 && o.eviction:
		return errors.New("--eviction goes with all namespaces alone: whether an evicted pod finds a place is up to pods of other ones too; leave it out, or leave --watch-namespaces out")
	case len(watched) > 0 && o.nodeLoadTaint:
		return errors.New("--node-load-taint goes with all namespaces alone: a taint is for every namespace's pods; leave it out, or leave --watch-namespaces out")
	case o.nodeInterval < time.Second:
		return fmt.Errorf("--node-interval %s is too short: use at least 1s, such as 5m", o.nodeInterval)
	}
	_, err := parseScaled(o.scaled)
	return err
}

// longestInterval is below the 15 minutes after which the alert AttuneUsageStale misses samples, and below the 20 minutes
// after which usage is too old to act on with steps of the usual length.
const longestInterval = 10 * time.Minute

// validate checks the source that is chosen.
func (o *usageOptions) validate() error {
	switch {
	case o.source != sourcePrometheus && o.source != sourceEmbedded:
		return fmt.Errorf("--usage-source %q is unknown: use %s or %s", o.source, sourceEmbedded, sourcePrometheus)
	case o.source == sourcePrometheus && o.prometheus.address == "":
		return errors.New("--prometheus-address is empty: set it to the server's base URL, such as http://prometheus.monitoring:9090")
	case o.kubelet.caFile != "" && o.kubelet.insecureSkipVerify:
		return errors.New("--kubelet-ca-file and --kubelet-insecure-skip-verify exclude each other: leave one out")
	case o.interval < time.Second:
		return fmt.Errorf("--usage-interval %s is too short: use at least 1s, such as 1m", o.interval)
	case o.interval > longestInterval:
		return fmt.Errorf("--usage-interval %s is too long: use at most %s, such as 1m", o.interval, longestInterval)
	}
	return nil
}
